"""Checks of the data of a config: annotation files, boxes, masks, images, label maps."""
