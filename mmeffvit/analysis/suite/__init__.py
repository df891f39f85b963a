"""Train and test many configs: their commands, their processes and the results table."""
