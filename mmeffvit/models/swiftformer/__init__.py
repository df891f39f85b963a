"""SwiftFormer (arXiv:2303.15446)."""
