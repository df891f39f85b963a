"""LiteRT."""
