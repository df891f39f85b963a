"""A page that runs an exported model in the browser."""
