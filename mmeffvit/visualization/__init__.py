"""Pictures of what a model sees."""
