"""Ours and peers from scratch on public datasets: ``python -m benchmarks public``."""
