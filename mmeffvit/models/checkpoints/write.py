"""Torch files for writers that replace a file at once."""

import io
from typing import Any

import torch


def torch_file(content: Any) -> bytes:
    """What ``torch.save`` writes: on a full disk, its own writer ends in a RuntimeError."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()
