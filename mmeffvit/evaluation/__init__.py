"""Evaluation of results files beyond the metrics of mmdet and mmseg."""
