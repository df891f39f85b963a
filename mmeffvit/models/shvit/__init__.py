"""SHViT (arXiv:2401.16456)."""
