"""Commands: one module with a parser and a job each, run by ``mmeffvit COMMAND``."""
