"""Measuring what every runtime gives on this machine."""
