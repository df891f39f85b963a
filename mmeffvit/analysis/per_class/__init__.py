"""Metrics of each class."""
