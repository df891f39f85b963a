"""Parts of a suite: commands, processes of their own, and the results table."""
