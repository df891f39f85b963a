"""What :mod:`mmeffvit.engine.complexity` is made of: what to count, how to run it, the rows."""
