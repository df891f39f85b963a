"""Mobile-Attention (ICML 2024), a mixer for the backbones of others."""
