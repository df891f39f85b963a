"""Checks before a run, the run, distillation, and a model from a folder of images."""
