"""Our backbones and those of timm with the same weights and the same maps."""

import logging
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch
from mmengine.logging import MMLogger
from torch import Tensor, nn

from mmeffvit.backbones import Backbone, EfficientFormerV2, MobileViTv2, SHViT, SwiftFormer
from mmeffvit.errors import UserError

TOLERANCE = 1e-4  # relative to the largest value of a map, in float32
FAMILIES = {
    'swiftformer': SwiftFormer,
    'shvit': SHViT,
    'mobilevitv2': MobileViTv2,
    'efficientformerv2': EfficientFormerV2,
}
_schemas: list[torch.library.Library] = []  # one that is collected takes its schemas along


@dataclass(frozen=True)
class Variant:
    """A released model.

    Args:
        family: Its family, as timm spells it.
        arch: Its name in our table of variants.
        side: Pixels of the square images that it was trained on.
    """

    family: str
    arch: str
    side: int = 224

    def __str__(self) -> str:
        return f'{self.family}_{self.arch}'

    @property
    def target(self) -> str:
        """As :mod:`mmeffvit.complexity.count` names it."""
        return f'{FAMILIES[self.family].__name__}:{self.arch}'


# a small and a large one of every family
VARIANTS = (
    Variant('swiftformer', 'xs'),
    Variant('swiftformer', 'l1'),
    Variant('shvit', 's1'),
    Variant('shvit', 's4', 256),
    Variant('mobilevitv2', '050', 256),
    Variant('mobilevitv2', '100', 256),
    Variant('efficientformerv2', 's0'),
    Variant('efficientformerv2', 's2'),
)
SMALL = VARIANTS[::2]
QUICK = VARIANTS[2:3]


@cache
def import_timm() -> ModuleType:
    """timm, as it is installed, or from the folder where the set-up puts it apart.

    Raises:
        UserError: If it is in neither.
    """
    apart = Path(sys.prefix, 'parity')
    if find_spec('timm') is None and apart.is_dir():
        # this torchvision is built for another torch: its operators never load, and importing it
        # asks only for their schemas
        library = torch.library.Library('torchvision', 'DEF')
        for name in ('nms', 'qnms'):
            library.define(f'{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')
        _schemas.append(library)
        sys.path.append(str(apart))
    try:
        import timm
    except ImportError as error:
        raise UserError('timm is not installed: `make environment` does it') from error
    return timm


def build_ours(variant: Variant, size: tuple[int, int], **options: object) -> Backbone:
    """Ours, without the output norms of SwiftFormer, which timm has not."""
    arguments: dict[str, object] = dict(arch=variant.arch, **options)
    if variant.family == 'swiftformer':
        arguments['output_norm'] = False
    if variant.family == 'efficientformerv2':
        arguments['resolution'] = size
    return FAMILIES[variant.family](**arguments)


def build_theirs(variant: Variant, size: tuple[int, int]) -> nn.Module:
    """timm's, returning the maps and nothing else.

    timm builds EfficientFormerV2 for one size of image.
    """
    options = dict(img_size=size) if variant.family == 'efficientformerv2' else {}
    return import_timm().create_model(str(variant), features_only=True, **options)


def build_pair(variant: Variant, size: tuple[int, int]) -> tuple[Backbone, nn.Module]:
    """Ours and timm's in eval mode, with the same random weights; their maps are equal.

    Args:
        variant: Which model.
        size: Height and width of the images in pixels.

    Raises:
        RuntimeError: If a map differs by more than ``TOLERANCE``: timing them would compare
            different things.
    """
    torch.manual_seed(0)
    theirs = randomize(build_theirs(variant, size))
    ours = build_ours(variant, size)
    # modules inside others have flat names in timm's wrapper: 'stages_0' for 'stages.0'
    state = {
        re.sub('^(stem|patch_embed|stages)_', r'\1.', key): value
        for key, value in theirs.state_dict().items()
    }
    MMLogger.get_current_instance().setLevel(logging.WARNING)  # it counts tensors
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, Path(folder, 'timm.pth'))
        ours.load_pretrained(Path(folder, 'timm.pth'))
    ours.eval()
    x = torch.randn(1, 3, *size)
    with torch.no_grad():
        assert_same_maps(ours(x), theirs(x), str(variant))
    return ours, theirs


def randomize(model: nn.Module) -> nn.Module:
    """Statistics, layer scales and biases in whose values a wrong fold or key shows."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
    for name, parameter in model.named_parameters():
        if 'gamma' in name:
            nn.init.uniform_(parameter, 0.5, 1.5)
        elif name.endswith(('bias', 'biases')):
            nn.init.normal_(parameter, 0, 0.1)
    return model.eval()


def assert_same_maps(ours: Sequence[Tensor], theirs: Sequence[Tensor], name: str) -> None:
    for index, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        error = ((own - other).abs().max() / other.abs().max()).item()
        if not error <= TOLERANCE:  # NaN is no agreement either
            raise RuntimeError(f'{name}: map {index} differs by {error:.1e} of its largest value')
