"""Parameters and MACs of backbones and models: :mod:`mmeffvit.analysis.complexity.count`."""
