"""Convert a released checkpoint to a file with our keys."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from mmeffvit.config.backbones import build_backbone, parse_backbone
from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.load import ALL
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models import Backbone, families
from mmeffvit.models.checkpoints import Checkpoint, LoadReport, fit, load_into, open_checkpoint
from mmeffvit.models.checkpoints.heads import CLASSIFIER
from mmeffvit.models.checkpoints.state import grids_in, safetensors_file, torch_file, with_grids
from mmeffvit.utils.files import write_file
from mmeffvit.utils.text import counted, listed

from .identify import describe, naming, nearest_variant
from .metafile import read_models
from .source import find_source

SUFFIXES = ('.safetensors', '.pth')


@dataclass(frozen=True)
class Conversion:
    """The content of a file, and what happens to every tensor of its source."""

    family: str  # of a backbone; of a full model the name of its config
    arch: str | None  # of a backbone
    tensors: dict[str, Tensor]  # by our keys
    report: LoadReport

    def __str__(self) -> str:
        report = self.report
        name = f'{self.family} {self.arch!r}' if self.arch else self.family
        parts = sorted({key.rsplit('.', 1)[0] for key in report.dropped})
        dropped = f': {listed(parts)}' if parts else ''
        parameters = sum(value.numel() for value in self.tensors.values())
        return (
            f'{report.checkpoint}\n'
            f'  is {name} in the {report.layout} layout\n'
            f'  kept: {counted(len(self.tensors), "tensor")} with {parameters:,} values, '
            f'{len(report.reordered)} of them reordered\n'
            f'  ignored: {counted(len(report.dropped), "tensor")}{dropped}'
        )


def convert(
    source: str | PathLike,
    *,
    averaged: bool = False,
    prefix: str | None = None,
    backbone_only: bool = False,
    classifier: bool = False,
) -> Conversion:
    """Read a released model or backbone in any layout, and remap its keys to ours.

    Args:
        source: A path, an http(s) URL or ``hf://OWNER/REPOSITORY``.
        averaged: Use the EMA weights of a training checkpoint.
        prefix: Use only keys with this prefix, which is removed.
        backbone_only: Convert only the backbone of a full model.
        classifier: Convert the head of a classifier as well, which needs mmpretrain.

    Raises:
        CheckpointError: If it cannot be read, or is not a variant of a known family.
    """
    checkpoint = open_checkpoint(source, averaged=averaged)
    is_classifier = checkpoint.head is CLASSIFIER
    if checkpoint.release and not (prefix or backbone_only) and (classifier or not is_classifier):
        return convert_model(checkpoint)
    tensors, _ = checkpoint.backbone_tensors(prefix)
    found = nearest_variant(tensors)
    if found is None:
        raise CheckpointError(
            f'{source} belongs to no known family ({", ".join(families())}): its first '
            f'keys are {sorted(tensors)[:5]}'
        )
    if found.misfits:
        count = len(found.misfits)
        raise CheckpointError(
            f'{source} matches no variant. The nearest is {found.family} {found.arch!r}, with '
            f'{count} keys missing, left over or of another shape: {listed(found.misfits)}'
        )
    with torch.device('meta'):
        backbone = families()[found.family](found.arch)
    return Conversion(found.family, found.arch, *fit(backbone, checkpoint, prefix=prefix))


def convert_model(checkpoint: Checkpoint) -> Conversion:
    """A full model, fitted into its config's model."""
    found = describe(checkpoint.weights)
    known = read_models().get(found)
    if known is None:
        raise CheckpointError(
            f'{checkpoint} is {found}, and there is no config to compare it with: '
            'load it with load_from, or give --backbone-only'
        )
    config = find_source(known.name, scopes=ALL).config
    with isolated(config.default_scope), torch.device('meta'):
        model = build_model(own_model_config(config))
    with naming():
        return Conversion(known.name, None, *fit(model, checkpoint))


def convert_into(source: str | PathLike, backbone: str, *, prefix: str | None = None) -> Conversion:
    """Load weights into a backbone, perhaps of another variant, and report every tensor.

    The backbone is one of :func:`mmeffvit.config.backbones.parse_backbone`, such as
    'EfficientFormerV2MobiAtt:s0'; the tensors of the result have its keys.
    """
    module = build_backbone(parse_backbone(backbone))
    if not isinstance(module, Backbone):
        raise UserError(
            f'{backbone!r} is not a mmeffvit backbone; choose from {", ".join(families())}'
        )
    report = load_into(module, open_checkpoint(source), prefix=prefix)
    state = module.state_dict()
    tensors = with_grids({key: state[key] for key in report.loaded}, grids_in(state))
    return Conversion(type(module).__name__, None, tensors, report)


def write(conversion: Conversion, out: Path) -> None:
    """Write the tensors, atomically."""
    if out.suffix not in SUFFIXES:
        raise UserError(f'{str(out)!r} ends in {out.suffix!r}; choose one of {SUFFIXES}')
    if out.exists():
        raise UserError(f'{str(out)!r} exists; remove it or choose another name')
    state = conversion.tensors
    if out.suffix == '.safetensors':
        names = dict(model=conversion.family, arch=conversion.arch or '')
        write_file(out, safetensors_file(state, **names))
        return
    tensors = {key: value.contiguous().clone() for key, value in state.items()}
    write_file(out, torch_file({'state_dict': with_grids(tensors, grids_in(state))}))
