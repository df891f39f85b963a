"""Blocks shared by several families; they depend on torch only."""
