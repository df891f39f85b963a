"""Parts of a suite: published numbers, commands, processes of their own, and the results table."""
