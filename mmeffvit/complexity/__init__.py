"""What :mod:`mmeffvit.complexity.count` is made of: what to count, how to run it, the rows."""
