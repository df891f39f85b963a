"""Running exported files on images, without torch."""
