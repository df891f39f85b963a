"""Checks before a run: of configs and of data."""
