"""Torch files for writers that replace a file at once."""

import io
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .grids import grid_text, grids_in


def torch_file(content: Any) -> bytes:
    """What ``torch.save`` writes: on a full disk, its own writer ends in a RuntimeError."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def safetensors_file(state: Mapping[str, Tensor], **metadata: str) -> bytes:
    """A safetensors file of a state dict, with the grids in it."""
    from safetensors.torch import save

    # cloned: tensors of a file must not share memory, as heads with shared layers do
    tensors = {key: value.detach().cpu().contiguous().clone() for key, value in state.items()}
    return save(tensors, metadata={'format': 'pt', **metadata, **grid_text(grids_in(state))})
