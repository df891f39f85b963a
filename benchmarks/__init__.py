"""Speed and memory of our backbones beside their peers: ``python -m benchmarks``."""
