"""The pipelines of a run: the base's, adapted to other image sizes, with reduced loading."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmeffvit.config.beside import assign
from mmeffvit.config.datasets import name_of, settings_of

from .base import Base
from .recipe import MEDIUM_FROM, Recipe

SIZES = ('scale', 'scales', 'img_scale', 'crop_size', 'size')  # arguments of transforms in pixels
MOSAICS = ('Mosaic', 'CachedMosaic')
# ranges of resizing from scratch, relative to the image size: of detectors in short runs, of others
MILD, MEDIUM = (0.9, 1.1), (0.75, 1.5)


def pipelines(
    base: Base,
    recipe: Recipe,
    sample: dict | None = None,
    *,
    are_cut: bool = False,
    has_background: bool = False,
) -> list[str]:
    """The lines of a config.

    ``sample`` is a transform that samples predictions in training; ``are_cut``, whether the last
    bytes of some images are missing; ``has_background``, whether a detector is trained on images
    without objects.
    """
    factor = recipe.image_size / base.image_size
    # the base's pipeline, or an easier one for training from scratch
    is_single = bool(base.last_pipeline) and not recipe.has_mosaic
    train = scaled(base.last_pipeline if is_single else base.train_pipeline, factor)
    if recipe.crop and (base.is_segmentor or is_single):
        widths_first = recipe.crop[::-1]  # but in mmseg's crops
        scales = MEDIUM if base.is_segmentor or recipe.seen >= MEDIUM_FROM else MILD
        own = dict(
            RandomCrop=('crop_size', recipe.crop if base.is_segmentor else widths_first),
            Pad=('size', widths_first),
            RandomResize=('ratio_range', scales),
        )
        for kind, (key, value) in own.items():
            for step in settings_of(train, kind):
                step[key] = value
    last = scaled(base.last_pipeline, factor) if base.last_pipeline else []
    for step in settings_of([train, last], 'RandomCrop') if has_background else ():
        step['allow_negative_crop'] = True  # else images without objects are replaced by others
    for pipeline in filter(None, (train, last)) if sample else ():
        place = next(i for i, step in enumerate(pipeline) if 'Annotations' in name_of(step))
        pipeline.insert(place, sample)
    if recipe.shrinks_images:
        train, last = with_reduced_loading(train), with_reduced_loading(last)
    load = with_cut_images if are_cut else list
    lines = [
        f'# sizes of the base, for {base.image_size} pixels, times {factor:g}'
        if factor != 1
        else f'# for {base.image_size} pixels, like the base',
        assign('train_pipeline', load(train)),
    ]
    if last and recipe.has_mosaic:
        lines.append(assign('last_pipeline', load(last)))
    lines.append(assign('test_pipeline', load(scaled(base.test_pipeline, factor))))
    if 'tta_pipeline' in base.config:
        lines.append(assign('tta_pipeline', load(scaled(base.settings['tta_pipeline'], factor))))
    return [*lines, '']


def scaled(pipeline: Any, factor: float, key: str = '') -> Any:
    """A pipeline whose sizes in pixels are multiplied by ``factor``."""
    if isinstance(pipeline, dict):
        return {name: scaled(item, factor, name) for name, item in pipeline.items()}
    if isinstance(pipeline, list | tuple):
        return type(pipeline)(scaled(item, factor, key) for item in pipeline)
    if key in SIZES and type(pipeline) is int:
        return max(1, round(pipeline * factor))
    return pipeline


def with_cut_images(pipeline: Sequence[dict]) -> list[dict]:
    """The pipeline with a loader of JPEG images whose last bytes are missing."""
    return [
        {**step, 'type': 'mmeffvit.LoadCutImage'} if name_of(step) == 'LoadImageFromFile' else step
        for step in pipeline
    ]


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
    """The largest rectangle that a transform fits images into; None if it is not known."""
    if name_of(resize) in MOSAICS:
        return tuple(resize['img_scale'])
    scale, largest = resize.get('scale'), 1.0
    if name_of(resize) == 'RandomResize':
        largest = resize.get('ratio_range', (1.0, 1.0))[1]
    elif name_of(resize) != 'Resize':
        return None
    if not resize.get('keep_ratio') or not all(isinstance(side, int) for side in scale):
        return None
    return tuple(round(side * largest) for side in scale)
