"""EfficientFormerV2 (arXiv:2212.08059)."""
