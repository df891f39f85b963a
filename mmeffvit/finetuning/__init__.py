"""From a folder of images to a trained model and its files, through an ordinary config."""
