"""Measuring the speed of every runtime on this host."""
