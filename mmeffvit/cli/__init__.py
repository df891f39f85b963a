"""Commands: a parser each, shared by ``mmeffvit COMMAND`` and ``tools/``."""
