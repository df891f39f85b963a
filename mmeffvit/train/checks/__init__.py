"""Checks of configs and data before a run."""
