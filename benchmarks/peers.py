"""Our backbones and timm's with the same weights and equal outputs."""

import logging
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from mmengine.logging import MMLogger
from torch import Tensor, nn

from mmeffvit.models import (
    Backbone,
    DeiT,
    EfficientFormerV2,
    MobileViTv2,
    PVTv2,
    SHViT,
    SwiftFormer,
)
from mmeffvit.utils.optional import require

TOLERANCE = 1e-4  # relative to the largest value of a map, in float32
FAMILIES = {
    'swiftformer': SwiftFormer,
    'shvit': SHViT,
    'mobilevitv2': MobileViTv2,
    'efficientformerv2': EfficientFormerV2,
    'deit': DeiT,
    'pvtv2': PVTv2,
}


@dataclass(frozen=True)
class Variant:
    """A released model."""

    family: str  # as in timm
    arch: str  # in our variant table
    side: int = 224  # pixels of its square training images

    def __str__(self) -> str:
        return f'{self.family}_{self.arch}'

    @property
    def target(self) -> str:
        """Its name for :mod:`mmeffvit.analysis.complexity.count`."""
        return f'{FAMILIES[self.family].__name__}:{self.arch}'


# a small and a large variant of every family
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


def build_ours(variant: Variant, size: tuple[int, int], **options: object) -> Backbone:
    """Our backbone, for SwiftFormer without the output norms, which timm does not have."""
    arguments: dict[str, object] = dict(arch=variant.arch, **options)
    if variant.family == 'swiftformer':
        arguments['output_norm'] = False
    if variant.family == 'efficientformerv2':
        arguments['resolution'] = size
    return FAMILIES[variant.family](**arguments)


def build_theirs(variant: Variant, size: tuple[int, int]) -> nn.Module:
    """Timm's backbone, which returns feature maps.

    timm builds EfficientFormerV2 for a fixed image size.
    """
    options = dict(img_size=size) if variant.family == 'efficientformerv2' else {}
    return require('timm').create_model(str(variant), features_only=True, **options)


def build_pair(variant: Variant, size: tuple[int, int]) -> tuple[Backbone, nn.Module]:
    """Ours and timm's in eval mode, with the same random weights; their maps are equal.

    Raises:
        RuntimeError: If a map differs by more than ``TOLERANCE``, which would make the comparison
            meaningless.
    """
    torch.manual_seed(0)
    theirs = randomize(build_theirs(variant, size))
    ours = build_ours(variant, size)
    # submodules have flat names in timm's wrapper: 'stages_0' for 'stages.0'
    state = {
        re.sub('^(stem|patch_embed|stages)_', r'\1.', key): value
        for key, value in theirs.state_dict().items()
    }
    MMLogger.get_current_instance().setLevel(logging.WARNING)  # suppresses the loading report
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, Path(folder, 'timm.pth'))
        ours.load_pretrained(Path(folder, 'timm.pth'))
    ours.eval()
    x = torch.randn(1, 3, *size)
    with torch.no_grad():
        assert_same_maps(ours(x), theirs(x), str(variant))
    return ours, theirs


def randomize(model: nn.Module) -> nn.Module:
    """Random statistics, layer scales and biases, so that wrong folding or keys are detected."""
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
        if not error <= TOLERANCE:  # also true for NaN
            raise RuntimeError(f'{name}: map {index} differs by {error:.1e} of its largest value')
