"""Attention maps of our backbones inside any model, recorded by forward hooks."""

from .grid import Canvas
from .recorder import attention_layers, record_attention

__all__ = ['Canvas', 'attention_layers', 'record_attention']
