"""The table of models: every backbone and every config by name, with what is known of it."""

from .metafile import Model, Result, find_model, list_models, read_models

__all__ = ['Model', 'Result', 'find_model', 'list_models', 'read_models']
