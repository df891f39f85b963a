"""Parameters and MACs of backbones and models: :mod:`mmeffvit.complexity.count`."""
