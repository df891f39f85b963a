"""Visualization of data, training, results and attention."""
