"""The commands of ``mmeffvit analyze``."""
