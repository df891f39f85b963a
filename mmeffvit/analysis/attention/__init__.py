"""Attention maps of our backbones inside any model, recorded by forward hooks."""

from .recorder import Canvas, attention_layers, record_attention

__all__ = ['Canvas', 'attention_layers', 'record_attention']
