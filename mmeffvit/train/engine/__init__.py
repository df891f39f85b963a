"""Training and testing with mmengine's runner, safe to interrupt."""
