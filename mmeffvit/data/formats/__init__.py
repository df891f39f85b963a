"""Formats of users' datasets, each with a function that finds and one that reads."""
