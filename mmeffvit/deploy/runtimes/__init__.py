"""Export to other runtimes."""
