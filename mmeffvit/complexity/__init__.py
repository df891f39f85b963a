"""Parameters and multiply-adds of backbones and models: :mod:`mmeffvit.complexity.count`."""
