"""Generated data sets, for training without downloads."""
