"""Removing attention heads from a trained model."""
