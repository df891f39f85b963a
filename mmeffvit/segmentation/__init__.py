"""Segmentation heads that mmseg lacks; alone in importing mmseg."""
