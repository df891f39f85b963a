"""int8 files."""
