"""Count parameters and MACs of a backbone or a full model, per module."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from mmengine.config import Config
from torch import nn

from mmeffvit.config.backbones import build_backbone, parse_backbone
from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.datasets import eval_shape
from mmeffvit.config.load import ALL
from mmeffvit.errors import UserError
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import align, reason
from mmeffvit.zoo.source import Kind, classify, find_source

from .forward import run_backbone, run_model
from .parts import Part, count_modules, make_parts

COUNTER = (
    'torch FlopCounterMode / 2: convolutions, linear layers and matrix products; not element-wise '
    'operations, norms, pooling and resizing'
)
DEFAULT_SHAPES = {
    'backbone': (224, 224),
    'mmpretrain': (224, 224),
    'mmdet': (800, 1333),
    'mmseg': (512, 512),
}
# devices for building and for running; the meta device computes only shapes, in little time
ATTEMPTS = (('meta', 'meta'), ('cpu', 'meta'), ('cpu', 'cpu'))


@dataclass
class Complexity:
    """Parameters and MACs of a model."""

    target: str  # the config or the backbone, as given by the user
    shape: tuple[int, int]  # of the image in pixels, neither resized nor padded
    device: str  # where it ran: 'meta' or 'cpu'
    parts: list[Part]  # disjoint, and together the model
    remarks: list[str] = field(default_factory=list)  # on how the numbers were obtained

    @property
    def total(self) -> Part:
        keys = ('parameters', 'trainable', 'macs')
        return Part('total', *(sum(getattr(p, key) for p in self.parts) for key in keys), ran=True)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), 'total': asdict(self.total), 'counter': COUNTER}

    def __str__(self) -> str:
        """The aligned table with its heading and its remarks."""
        rows = [('', 'parameters', 'trainable', 'MACs')]
        for part in (*self.parts, self.total):
            macs = f'{part.macs / 1e9:.3f} G' if part.ran else 'not run'
            rows.append((part.name, f'{part.parameters:,}', f'{part.trainable:,}', macs))
        title = f'{self.target} at {self.shape[0]} x {self.shape[1]}'
        return '\n'.join([title, *align(rows), f'counted by {COUNTER}', *self.remarks])


def count(
    target: str, *, shape: tuple[int, int] | None = None, proposals: int | None = None
) -> Complexity:
    """Count a backbone, or the model of a config, for inference on one image.

    Heads used in training only have parameters but no MACs. The second stage of a detector
    gets ``proposals`` boxes, its mask head the first 100 of them, like mmdet's ``mode='tensor'``.

    Args:
        target: A config file, a saved model, or a backbone such as 'SHViT:s4' or
            'EfficientFormerV2:s2:attention=mobile'; see
            :func:`mmeffvit.config.backbones.parse_backbone`.
        shape: Height and width in pixels; None uses the test size of the config if it has one,
            otherwise 224 x 224 for a backbone or a classifier, 800 x 1333 for a detector, 512 x 512
            for a segmentor.
        proposals: Number of boxes for the second stage; None uses ``test_cfg.rpn.max_per_img`` of
            the config, or 1000.

    Raises:
        UserError: If the target is neither a config nor a known backbone, or does not run.
    """
    for name, value in (('--shape', min(shape or (1,))), ('--proposals', proposals)):
        if value is not None and value < 1:
            raise UserError(f'{name} is {value}; give 1 or more')
    if classify(target) is Kind.NAME:
        shape = shape or DEFAULT_SHAPES['backbone']
        build = partial(build_backbone, parse_backbone(target))
        with isolated('mmengine'):
            return attempt(target, shape, build, partial(run_backbone, shape=shape))
    config = find_source(target, scopes=ALL).config
    return count_config(target, config, shape=shape, proposals=proposals)


def count_config(
    target: str,
    config: Config,
    *,
    shape: tuple[int, int] | None = None,
    proposals: int | None = None,
) -> Complexity:
    """Count the model of a config that is open; see :func:`count`."""
    scope = config.default_scope
    settings = own_model_config(config)
    shape = shape or eval_shape(config) or DEFAULT_SHAPES[scope]
    rpn = (settings.get('test_cfg') or {}).get('rpn') or {}
    boxes = proposals or rpn.get('max_per_img', 1000)
    forward = partial(run_model, shape=shape, proposals=boxes)
    with isolated(scope):
        result = attempt(target, shape, partial(build_model, settings), forward)
    if 'roi_head' in settings and 'anchor_generator' in (settings.get('rpn_head') or {}):
        result.remarks.append(f'the second stage gets {boxes} boxes, a mask head at most 100')
    return result


def attempt(
    target: str,
    shape: tuple[int, int],
    build: Callable[[], nn.Module],
    forward: Callable[[nn.Module], None],
) -> Complexity:
    """Run the model on the meta device, or on the CPU if that fails."""
    failure = None
    for built_on, device in ATTEMPTS:
        if device == 'cpu':
            remark = f'run on the CPU, since the meta device failed: {failure}'
            logger.warning(remark)  # before the slow run
        try:
            with torch.device(built_on):
                model = build()
            model.to(device)
            model.eval()  # the eval() of some models returns None
            own = count_modules(model, forward)
        except UserError:
            raise
        except Exception as error:  # unsupported operations raise various exceptions
            failure = reason(error).split('. ')[0]
            continue
        remarks = uncounted(model) + ([remark] if device == 'cpu' else [])
        return Complexity(target, tuple(shape), device, make_parts(model, own), remarks)
    raise UserError(f'{target} does not run at {shape[0]} x {shape[1]}: {failure}')


def uncounted(model: nn.Module) -> list[str]:
    """A remark on mmcv's operators in the model, which torch cannot count."""
    found = {type(m).__name__ for m in model.modules() if type(m).__module__.startswith('mmcv.ops')}
    return [f'not counted inside: {", ".join(sorted(found))}'] if found else []
