"""The table of models: metadata of every backbone and config by name."""

from .metafile import Model, Result, find_model, list_models, read_models

__all__ = ['Model', 'Result', 'find_model', 'list_models', 'read_models']
