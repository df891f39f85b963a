"""Data made here: shapes to learn on where no photographs are at hand."""
