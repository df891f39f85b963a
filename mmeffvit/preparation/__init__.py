"""Preparation of data sets from other data sets."""
