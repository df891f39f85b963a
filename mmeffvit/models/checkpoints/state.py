"""State dicts with the grids that position tables are saved with, and the bytes of their files."""

import io
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mmeffvit.models.layers.grid import GRIDS, Grid, grids_of


def grids_in(state: Any) -> dict[str, Grid]:
    """The grids in the metadata of a state dict, by the key of their tensor."""
    metadata = getattr(state, '_metadata', None)
    return {
        f'{path}.{name}' if path else name: grid
        for path, own in (metadata.items() if isinstance(metadata, Mapping) else ())
        if isinstance(path, str)
        for name, grid in grids_of(own).items()
    }


def with_grids(tensors: Mapping[str, Tensor], grids: Mapping[str, Any]) -> OrderedDict[str, Tensor]:
    """A state dict with grids in its metadata."""
    state = OrderedDict(tensors)
    state._metadata = OrderedDict()
    for key, grid in grids.items():
        path, _, name = key.rpartition('.')
        state._metadata[path] = {GRIDS: {name: grid}}
    return state


def grids_in_text(text: str | None) -> dict[str, Any]:
    """Grids in the metadata of a safetensors file, by key; they are checked when they are used."""
    try:
        grids = json.loads(text or '{}')
    except (ValueError, RecursionError):
        return {}
    return grids if isinstance(grids, dict) else {}


def safetensors_file(state: Mapping[str, Tensor], **metadata: str) -> bytes:
    """A safetensors file of a state dict, with the grids in it as text."""
    from safetensors.torch import save

    # cloned: tensors of a file must not share memory, as heads with shared layers do
    tensors = {key: value.detach().cpu().contiguous().clone() for key, value in state.items()}
    grids = grids_in(state)
    texts = {GRIDS: json.dumps(grids)} if grids else {}
    return save(tensors, metadata={'format': 'pt', **metadata, **texts})


def torch_file(content: Any) -> bytes:
    """What ``torch.save`` writes: on a full disk, its own writer ends in a RuntimeError."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()
