"""Maps that arrive at heads and necks: their strides, their channels, and why a step failed."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from mmengine.config import Config
from torch import Size, nn

from mmeffvit.config.datasets import input_multiples
from mmeffvit.errors import UserError
from mmeffvit.models.heads import HEADS
from mmeffvit.utils.text import listed, reason

from .findings import Finding, fault, note, passed, unchecked
from .step import Step

GENERATORS = ('prior_generator', 'anchor_generator', 'approx_anchor_generator', 'point_generator')
NEEDS_ACCELERATOR = re.compile(
    r'device cpu not found|not (implemented|supported|available) (on|for|in).{0,3}cpu'
    r'|not compiled with|no kernel image|requires? (a )?(cuda|gpu)',
    re.IGNORECASE,
)
LISTS = ('featmap_strides', 'feature_strides')  # of RoI extractors, of segmentation heads


def check_strides(step: Step, config: Config) -> Iterator[Finding]:
    """Compare the strides of every level of every head.

    A map of side m matches stride s if m differs from side / s by less than one cell: some layers
    round sizes up and others down.
    """
    undeclared, unreached = [], []
    for name, module in step.watched():
        declared = declared_strides(module)
        maps = used_maps(module, step.received.get(name, []))
        if declared is not None and maps:
            yield compare(step, name, declared, maps)
        elif declared is not None:
            unreached.append(step.describe(name))
        elif (  # not a list of heads or a head on RoIs
            HEADS.search(name)
            and not name.startswith('roi_head.')
            and not isinstance(module, nn.ModuleList)
        ):
            undeclared.append(step.describe(name))
    if undeclared:
        yield unchecked(f'strides of the maps for {listed(undeclared)}: none declared')
    if unreached:
        yield unchecked(f'strides of the maps for {listed(unreached)}: no maps received')
    yield from padding_hint(step, config)


def declared_strides(module: nn.Module) -> tuple[float, ...] | None:
    """The strides that a head or a RoI extractor is configured for."""
    if hasattr(module, 'mask_feature_head'):
        return None  # mmdet's dynamic mask heads declare the stride of their output
    strides = None
    for attribute in LISTS:
        strides = strides or getattr(module, attribute, None)
    for attribute in GENERATORS:
        strides = strides or getattr(getattr(module, attribute, None), 'strides', None)
    if not isinstance(strides, list | tuple):
        return None
    return tuple(s[0] if isinstance(s, list | tuple) else s for s in strides)


def used_maps(module: nn.Module, maps: list[Size]) -> list[Size]:
    """The input maps that a head uses: heads of mmseg select some by ``in_index``."""
    index = getattr(module, 'in_index', None)
    if index is None:
        return maps
    chosen = index if isinstance(index, list | tuple) else [index]
    in_range = all(-len(maps) <= i < len(maps) for i in chosen)
    return [maps[i] for i in chosen] if in_range else maps


def compare(step: Step, name: str, declared: Sequence[float], maps: Sequence[Size]) -> Finding:
    arrived = [stride_of(shape, step) for shape in maps]
    called = step.describe(name)
    if len(declared) != len(maps):
        fix = suggest_fix(step, name, declared, arrived)
        return fault(
            f'{called} declares {len(declared)} levels, strides {listed(declared)}; it gets '
            f'{len(maps)} maps, strides {listed(arrived)}: {fix}'
        )
    for level, (stride, shape) in enumerate(zip(declared, maps, strict=True)):
        sides = zip(step.image, shape[2:], strict=True)
        if any(abs(side / stride - cells) >= 1 for side, cells in sides):
            return fault(
                f'{called} declares stride {stride} for level {level}, a map of stride '
                f'{arrived[level]} arrives ({shape[2]} x {shape[3]} cells for {step.image[0]} x '
                f'{step.image[1]} pixels): {suggest_fix(step, name, declared, arrived)}'
            )
    return passed(f'{called} declares strides {listed(declared)}, which its maps have')


def stride_of(shape: Size, step: Step) -> float:
    """Pixels per cell, as an integer if it is one."""
    stride = step.image[0] / shape[2]
    return int(stride) if stride == int(stride) else round(stride, 1)


def suggest_fix(step: Step, name: str, declared: Sequence[float], arrived: list[float]) -> str:
    """The fix: other declared strides, or maps with these strides."""
    settings = step.settings_at(name)
    key = next((key for key in (*LISTS, *GENERATORS) if key in settings), 'strides')
    place = f'{name}.{key}' + ('.strides' if key in GENERATORS else '')
    maps = step.returned.get('backbone') or []
    finest = stride_of(maps[0], step) if maps else declared[0]
    finer = math.log2(finest / declared[0])
    if finer >= 1 and finer.is_integer():
        # whether levels coarser than the backbone's maps are needed
        coarser = declared[-1] >= 2 * stride_of(maps[-1], step)
        other = (
            'add finer maps, the finest of the backbone has stride '
            f"{finest}: model.neck=dict(type='mmeffvit.TransposedFPN', "
            f'in_channels={[shape[1] for shape in maps]}, num_finer={int(finer)}'
            f'{", coarser=True" if coarser else ""})'
        )
    else:
        other = (
            'select other maps with model.backbone.out_indices, or with start_level and num_outs '
            'of the neck'
        )
    return f'set {step.place}.{place}={arrived}, or {other}'


def padding_hint(step: Step, config: Config) -> Iterator[Finding]:
    """Note image sizes for which the backbone does not have exact strides."""
    divisor = getattr(step.backbone, 'size_divisor', 1)
    multiples = input_multiples(config)
    if any(side % divisor for side in multiples):
        kind = type(step.backbone).__name__
        yield note(
            f'sides of training images are multiples of {listed(sorted(set(multiples)))} pixels; '
            f'unless both sides are multiples of {divisor}, {kind} enlarges odd maps to even sizes '
            f'and its strides are slightly below the declared ones: pad to {divisor} '
            '(pad_size_divisor of mmdet, size or size_divisor of mmseg), or set '
            "model.backbone.odd_size='restore'"
        )


def check_run(step: Step, *, explained: bool) -> Iterator[Finding]:
    """Report why the step failed; channels only if other faults explain it."""
    if step.error is None:
        return
    if NEEDS_ACCELERATOR.search(str(step.error)):
        yield unchecked(f'a training step: it needs an accelerator ({reason(step.error)})')
        return
    wrong = list(wrong_channels(step)) if step.model is not None else []
    yield from wrong
    if wrong or explained:
        yield unchecked('the rest of the training step, which fails because of these errors')
    elif step.model is None:
        known = isinstance(step.error, UserError)
        yield fault(
            str(step.error) if known else f'the model cannot be built: {reason(step.error)}'
        )
    else:
        where = step.describe(step.failed_in) if step.failed_in else 'the model'
        yield fault(f'{where} fails in a training step on random images: {reason(step.error)}')


def missing_maps(step: Step, name: str, index: Any, maps: Sequence[Size]) -> Finding | None:
    """The fault of a head of mmseg whose ``in_index`` selects maps that do not arrive, if any."""
    several = isinstance(index, list | tuple)
    if index is None or not maps or (max(index) if several else index) < len(maps):
        return None
    channels = [shape[1] for shape in maps]
    place = f'{step.place}.{name}'
    chosen = list(range(len(maps))) if several else len(maps) - 1
    return fault(
        f'{step.describe(name)} has in_index={index}, but {len(maps)} maps arrive: set '
        f'{place}.in_index={chosen} and {place}.in_channels={channels if several else channels[-1]}'
    )


def wrong_channels(step: Step) -> Iterator[Finding]:
    """The outermost module around the failure whose input channels differ from its config."""
    parts = (step.failed_in or '').split('.')
    for depth in range(1, len(parts) + 1):
        name = '.'.join(parts[:depth])
        if name not in step.received:
            continue
        module, settings = step.model.get_submodule(name), step.settings_at(name)
        maps = step.received[name]
        if missing := missing_maps(step, name, getattr(module, 'in_index', None), maps):
            yield missing
            return
        arrived = [shape[1] for shape in used_maps(module, maps)]
        if type(module).__name__ == 'YOLOV3Neck':  # which begins at the coarsest map
            arrived = arrived[::-1]
        # a RoI extractor declares its output channels
        key = 'out_channels' if hasattr(module, 'featmap_strides') else 'in_channels'
        declared = settings.get(key, getattr(module, key, None))
        if not settings or not arrived or not isinstance(declared, int | list | tuple):
            continue
        several = isinstance(declared, list | tuple)
        if list(declared) != arrived if several else set(arrived) != {declared}:
            fix = f'{step.place}.{name}.{key}', arrived if several else arrived[0]
            yield fault(
                f'{step.describe(name)} has {key}={list(declared) if several else declared}, but '
                f'maps of {listed(arrived)} channels arrive: set {fix[0]}={fix[1]}',
                fix,
            )
            return
