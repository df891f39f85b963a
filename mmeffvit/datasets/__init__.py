"""Generated datasets, for training without downloads, and transforms that mmdet and mmseg lack."""
