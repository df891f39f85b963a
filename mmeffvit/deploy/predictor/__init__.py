"""Running exported models on images."""
