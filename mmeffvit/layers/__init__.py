"""Blocks that two families share; they know torch and nothing else."""
