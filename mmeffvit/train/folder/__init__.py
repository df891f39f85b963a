"""Train a model on a folder of images, through an ordinary config, and export it."""
