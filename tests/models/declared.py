"""What tests know of a family beyond its class: a new family is declared here and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mmeffvit.models import families


@dataclass(frozen=True)
class Declared:
    """A family.

    Args:
        tiny: An arch that builds and runs in milliseconds.
        classifier: Numbers of norms and of linear layers of the official head for 1000 classes.
        timm: The beginning of its names in timm; None if timm does not have it.
        timm_names: Those of its variants in timm, where they are not ``timm_variant``.
        timm_options: Arguments with which it returns timm's maps.
        timm_indices: The blocks in timm whose outputs these are; None for its stages.
        has_timm_size: Whether timm builds it for one size of images.
        num_official_tensors: Of the official files by variant, without buffers of indices.
        has_batch_norms: Whether it normalizes by batch.
        drops_paths: Whether it has random layers.
        export_multiple: What the sides of images must be multiples of to share an exported graph;
            a map of one row or column has a graph of its own.
    """

    tiny: Any
    classifier: tuple[int, int]
    timm: str | None = None
    timm_names: Mapping[str, str] = field(default_factory=dict)
    timm_options: Mapping[str, Any] = field(default_factory=dict)
    timm_indices: list[int] | None = None
    has_timm_size: bool = False
    num_official_tensors: Mapping[str, int] = field(default_factory=dict)
    has_batch_norms: bool = True
    drops_paths: bool = True
    export_multiple: int = 1

    def timm_name(self, arch: str) -> str:
        return self.timm_names.get(arch, f'{self.timm}_{arch}')


EFFICIENTFORMERV2 = dict(
    channels=(8, 8, 16, 16), depths=(1, 1, 2, 2), attended=(1, 1), narrow=((0, 1), (1, 2))
)
PVTV2 = dict(channels=(8, 8, 20, 16), depths=(1, 1, 1, 2), expansions=(2, 2, 2, 2))
DEIT = dict(channels=16, heads=2, depths=(1, 1, 1, 2))
DECLARED = {
    'SwiftFormer': Declared(
        dict(channels=(8, 8, 16, 16), depths=(1, 1, 1, 2)), (1, 2), 'swiftformer',
        timm_options=dict(output_norm=False),
        num_official_tensors=dict(xs=316, s=376, l1=388, l3=436)),
    'SHViT': Declared(
        dict(channels=(16, 24, 32), depths=(1, 1, 2), attended=(0, 8, 8)), (1, 1), 'shvit',
        num_official_tensors=dict(s1=471, s2=471, s3=521, s4=635), drops_paths=False),
    'MobileViTv2': Declared(
        0.125, (0, 1), 'mobilevitv2',
        num_official_tensors=dict.fromkeys(families()['MobileViTv2'].variants, 269),
        drops_paths=False, export_multiple=64),
    'EfficientFormerV2': Declared(
        EFFICIENTFORMERV2, (1, 2), 'efficientformerv2', has_timm_size=True,
        num_official_tensors=dict(s0=568, s1=722, s2=1054, l=1386)),
    'EfficientFormerV2MobiAtt': Declared(EFFICIENTFORMERV2, (1, 2)),
    'DeiT': Declared(
        DEIT, (1, 1), 'deit',
        {a[0]: f'deit_{a}_patch16_224' for a in ('tiny', 'small', 'base')},
        timm_indices=[2, 5, 8, 11], has_timm_size=True,
        num_official_tensors=dict(t=152, s=152, b=152), has_batch_norms=False),
    'DeiTMobiAtt': Declared(DEIT, (1, 1), has_batch_norms=False),
    'PVTv2': Declared(
        PVTV2, (0, 1), 'pvt_v2',
        num_official_tensors=dict(b0=178, b1=178, b2=334, b3=574, b4=834, b5=1054),
        has_batch_norms=False),
    'PVTv2MobiAtt': Declared(PVTV2, (0, 1), has_batch_norms=False),
}  # fmt: skip
