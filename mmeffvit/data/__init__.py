"""Users' datasets, read in any of their formats and written in those of mmdet and mmseg."""
