"""Helpers that several rooms need, one of each."""
