"""A trained model on pictures and videos of one's own."""
