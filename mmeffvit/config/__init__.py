"""Configs: reading them, and which of mmdet and mmseg they need."""
