"""MobileViTv2 (arXiv:2206.02680)."""
