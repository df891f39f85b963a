"""Generated datasets, for training without downloads."""
