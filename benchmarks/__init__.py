"""Speed and memory of our backbones compared with timm's: ``python -m benchmarks``."""
