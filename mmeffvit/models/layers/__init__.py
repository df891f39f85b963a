"""Blocks that several families share; they depend on torch alone."""
