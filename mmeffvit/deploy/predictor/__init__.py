"""Exported models on images."""
