"""A released checkpoint as a clean file of our own layout."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmeffvit.backbones import Backbone, families
from mmeffvit.checkpoints import CheckpointError, Layout, read_checkpoint, rename
from mmeffvit.checkpoints.load import LoadReport, below, is_counter, same_size
from mmeffvit.checkpoints.models import fit, is_classifier, read_model, release_of
from mmeffvit.checkpoints.read import AVERAGED_WEIGHTS, WEIGHTS
from mmeffvit.checkpoints.rename import recognize
from mmeffvit.checkpoints.sources import fetch
from mmeffvit.config.backbones import build_backbone, parse_backbone
from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.load import ALL, open_config
from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file

from .metafile import read_models

SUFFIXES = ('.safetensors', '.pth')


@dataclass(frozen=True)
class Conversion:
    """What a file holds, and what becomes of every tensor."""

    source: str
    family: str  # of a backbone; of a whole model the name of its config
    arch: str | None  # of a backbone
    layout: str
    tensors: dict[str, Tensor]  # by our keys
    renamed: dict[str, str]  # our key of every kept one
    dropped: tuple[str, ...]
    reordered: tuple[str, ...] = ()
    report: LoadReport | None = None  # into a given backbone

    @property
    def name(self) -> str:
        return f'{self.family} {self.arch!r}' if self.arch else self.family

    def __str__(self) -> str:
        if self.report is not None:
            return f'{self.report.by_tensor()}\n{self.report}'
        parts = sorted({key.rsplit('.', 1)[0] for key in self.dropped})
        dropped = f': {", ".join(parts[:8])}{" ..." * (len(parts) > 8)}' if parts else ''
        parameters = sum(value.numel() for value in self.tensors.values())
        return (
            f'{self.source}\n'
            f'  is {self.name} in the {self.layout} layout\n'
            f'  {len(self.tensors)} tensors with {parameters:,} values are kept, '
            f'{len(self.reordered)} of them reordered\n'
            f'  {len(self.dropped)} are ignored{dropped}'
        )


def convert(
    source: str | PathLike,
    *,
    averaged: bool = False,
    prefix: str | None = None,
    backbone_only: bool = False,
    classifier: bool = False,
) -> Conversion:
    """Read a released model or backbone in any layout, and say it in ours.

    Args:
        source: A path, an http(s) address or ``hf://OWNER/REPOSITORY``.
        averaged: Take the EMA weights that a training checkpoint holds.
        prefix: Read only the keys that start so, and cut this off.
        backbone_only: Of a whole model, the backbone alone.
        classifier: Of a classifier, its head too, which needs mmpretrain.

    Raises:
        CheckpointError: If it cannot be read, or is no variant of a family.
    """
    path = fetch(source)
    tensors, outside = read_checkpoint(path, averaged=averaged)
    if prefix:
        tensors = below(tensors, prefix, source)
    elif not backbone_only:
        content = read_model(path, names=AVERAGED_WEIGHTS if averaged else WEIGHTS)
        if release_of(content) and (classifier or not is_classifier(content)):
            return convert_model(str(source), content)
    misfits = []
    for family, arch, layout in _candidates(tensors):
        renamed, dropped = rename(tensors, layout.table)
        state = {new: tensors[old] for old, new in renamed.items()}
        target = _target(family, arch)
        wrong = _misfits(state, target)
        if not wrong:
            state = {key: value.reshape(target[key].shape) for key, value in state.items()}
            gone = (*outside, *dropped)
            return Conversion(str(source), family.__name__, arch, layout.name, state, renamed, gone)
        misfits.append((len(wrong), f'{family.__name__} {arch!r}', wrong))
    if not misfits:
        raise CheckpointError(
            f'{source} is of no family here ({", ".join(families())}): its first '
            f'keys are {sorted(tensors)[:5]}'
        )
    count, name, wrong = min(misfits)
    raise CheckpointError(
        f'{source} fits no variant. Nearest is {name}, with {count} keys missing, left over or of '
        f'another shape: {", ".join(wrong[:8])}{" ..." * (count > 8)}'
    )


def convert_model(source: str, content: Mapping[str, Any]) -> Conversion:
    """A whole model, compared with that of its config.

    Args:
        source: Of the file.
        content: What :func:`mmeffvit.checkpoints.models.read_model` returned.

    Raises:
        CheckpointError: If no config has a model of its kind, or it does not fit.
    """
    release = release_of(content)
    known = read_models().get(release['model'])
    if known is None:
        raise CheckpointError(
            f'{source} is {release["model"]}, and there is no config of it to compare it with: '
            'load it as it is, by load_from, or give --backbone-only'
        )
    config = open_config(known.config, scopes=ALL)
    with isolated(config.default_scope), torch.device('meta'):
        model = build_model(own_model_config(config))
    state, report = fit(model, content, source)
    return Conversion(
        source=source,
        family=known.name,
        arch=None,
        layout=report.layout,
        tensors=state,
        renamed={old: new for old, new in release['keys'].items() if new in state},
        dropped=report.dropped,
        reordered=report.reordered,
    )


def convert_into(source: str | PathLike, backbone: str, *, prefix: str | None = None) -> Conversion:
    """Load weights into a backbone, perhaps of another form, and say what becomes of every tensor.

    Args:
        source: A path, an http(s) address or ``hf://OWNER/REPOSITORY``.
        backbone: As 'EfficientFormerV2MobiAtt:s0', see
            :func:`mmeffvit.config.backbones.parse_backbone`.
        prefix: Read only the keys that start so, and cut this off.

    Returns:
        The tensors that were loaded, by the keys of the backbone.

    Raises:
        CheckpointError: If it cannot be read, or does not fit.
        UserError: If the backbone is none of ours.
    """
    module = build_backbone(parse_backbone(backbone))
    if not isinstance(module, Backbone):
        raise UserError(f'{backbone!r} is not of this package; choose from {", ".join(families())}')
    report = module.load_pretrained(source, prefix=prefix)
    state = module.state_dict()
    return Conversion(
        source=str(source),
        family=type(module).__name__,
        arch=None,
        layout=report.layout,
        tensors={key: state[key] for key in report.loaded},
        renamed={},
        dropped=report.dropped,
        report=report,
    )


def write(conversion: Conversion, out: Path) -> None:
    """Write the tensors; atomically.

    Raises:
        UserError: If the name ends otherwise than in ``SUFFIXES``, or the file exists.
    """
    if out.suffix not in SUFFIXES:
        raise UserError(f'{str(out)!r} ends in {out.suffix!r}; choose one of {SUFFIXES}')
    if out.exists():
        raise UserError(f'{str(out)!r} exists; remove it or choose another name')
    tensors = {key: value.contiguous() for key, value in conversion.tensors.items()}
    if out.suffix == '.safetensors':
        from safetensors.torch import save

        meta = {'format': 'pt', 'model': conversion.family, 'arch': conversion.arch or ''}
        content = save(tensors, metadata=meta)
    else:
        buffer = io.BytesIO()
        torch.save({'state_dict': tensors}, buffer)
        content = buffer.getvalue()
    write_file(out, content)


def _candidates(tensors: dict[str, Tensor]) -> Iterator[tuple[type[Backbone], str, Layout]]:
    for family in families().values():
        layout = recognize(tensors, family.layouts)
        if layout is not None:
            yield from ((family, arch, layout) for arch in family.variants)


def _target(family: type[Backbone], arch: str) -> dict[str, Tensor]:
    with torch.device('meta'):
        return family(arch).state_dict()


def _misfits(state: dict[str, Tensor], target: dict[str, Tensor]) -> list[str]:
    """Keys that are missing, left over or of another size; output norms may be missing."""
    missing = [
        key
        for key in target
        if key not in state and not key.startswith('output_norms.') and not is_counter(key)
    ]
    return missing + [
        key for key in state if key not in target or not same_size(state[key], target[key])
    ]
