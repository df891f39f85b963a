"""Boxes as the authors' detectors make them, in plain torch."""

import torch
from torch import Tensor


def decode(anchors: Tensor, deltas: Tensor, limit: float | None = None) -> Tensor:
    """(cx, cy, w, h) and (tx, ty, tw, th) -> (left, top, right, bottom).

    Args:
        anchors: (N, 4).
        deltas: (N, 4), in sides of the anchor and its logarithm.
        limit: Largest absolute logarithm.
    """
    logs = deltas[:, 2:] if limit is None else deltas[:, 2:].clamp(-limit, limit)
    center = anchors[:, :2] + deltas[:, :2] * anchors[:, 2:]
    half = anchors[:, 2:] * logs.exp() / 2
    return torch.cat([center - half, center + half], dim=1)


def grid_anchors(height: int, width: int, stride: int, sides: list[tuple[float, float]]) -> Tensor:
    """Anchors of mmdet 2 in pixels as (cx, cy, w, h): centered on the corner of their cell."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing='ij')
    centers = torch.stack([x, y], dim=-1).reshape(-1, 1, 2).float() * stride
    sizes = torch.tensor(sides).expand(len(centers), -1, 2)
    return torch.cat([centers.expand(-1, len(sides), 2), sizes], dim=-1).reshape(-1, 4)
