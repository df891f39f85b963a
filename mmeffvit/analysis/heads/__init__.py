"""Similarity of attention heads, and accuracy without each of them."""
