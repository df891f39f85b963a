"""What can be wrong with the data of a config: annotation files, boxes, masks, images, labels."""
