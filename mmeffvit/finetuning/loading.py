"""How large images are loaded: as small as a pipeline needs them."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmeffvit.config.datasets import name_of

MOSAICS = ('Mosaic', 'CachedMosaic')


def with_reduced_loading(pipeline: Sequence[dict]) -> list[dict]:
    """The pipeline with ``LoadReduced`` if the first transform after loading resizes images."""
    names = [name_of(step) for step in pipeline]
    plain = dict(type='LoadImageFromFile')
    if plain not in pipeline or 'LoadAnnotations' not in names:
        return list(pipeline)
    place = names.index('LoadAnnotations')
    scale = largest_scale(pipeline[place + 1])
    if scale is None:
        return list(pipeline)
    load = dict(type='mmeffvit.LoadReduced', annotations=pipeline[place], scale=scale)
    return [
        load if index == place else step for index, step in enumerate(pipeline) if step != plain
    ]


def largest_scale(resize: Mapping[str, Any]) -> tuple[int, int] | None:
    """The largest rectangle that a transform fits images into; None if it may do otherwise."""
    if name_of(resize) in MOSAICS:
        return tuple(resize['img_scale'])
    scale, largest = resize.get('scale'), 1.0
    if name_of(resize) == 'RandomResize':
        largest = resize['ratio_range'][1]
    elif name_of(resize) != 'Resize':
        return None
    if not resize.get('keep_ratio') or not all(isinstance(side, int) for side in scale):
        return None
    return tuple(round(side * largest) for side in scale)
