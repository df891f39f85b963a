"""Users' datasets, read in any of their formats and written in formats of mmdet and mmseg."""
