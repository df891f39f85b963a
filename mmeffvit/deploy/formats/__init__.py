"""Formats of exported files, a folder for each."""
