"""Checkpoints of runs and of releases, read once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from torch import Tensor

from mmeffvit.errors import CheckpointError
from mmeffvit.models.layers.grid import Grid
from mmeffvit.registries import families
from mmeffvit.utils.schema import (
    Field,
    are_names,
    check_fields,
    integer_from,
    is_dict,
    is_list,
    is_palette,
    is_text,
)
from mmeffvit.utils.text import listed, reason

from .heads import Head, head_of
from .read import AVERAGED_WEIGHTS, WEIGHTS, check_finite, read_content, state_in, weights_in
from .rename import Layout, recognize
from .sources import fetch
from .state import grids_in, with_grids


def is_state_dict(value: Any) -> bool:
    return is_dict(value) and all(isinstance(key, str) for key in value)


# of a parallel wrapper, and of the backbone inside models of mmdet, mmseg and cvnets
PREFIXES = ('module.', 'backbone.', 'encoder.')
META = (
    Field('meta', is_dict, 'a dict'),
    Field('meta.dataset_meta', is_dict, 'a dict'),
    Field('meta.dataset_meta.classes', are_names, 'a list of names'),
    Field('meta.dataset_meta.palette', lambda value: is_text(value) or is_palette(value),
          'a list of colors, three integers from 0 to 255 each, or a name'),
    Field('meta.CLASSES', are_names, 'a list of names'),
)  # fmt: skip
COUNT = integer_from(0, 2**53)
RUN = (  # what mmengine's runner saves, and needs to resume
    Field('meta', is_dict, 'a dict', required=True),
    Field('meta.epoch', COUNT, 'an integer of at least 0', required=True),
    Field('meta.iter', COUNT, 'an integer of at least 0', required=True),
    Field('meta.seed', integer_from(0, 2**32 - 1), 'an integer from 0 to 4294967295'),
    Field('message_hub', is_dict, 'a dict', required=True),
    *(Field(f'message_hub.{name}', is_dict, 'a dict', required=True)
      for name in ('log_scalars', 'runtime_info', 'resumed_keys')),
    Field('optimizer', is_dict, 'a dict', required=True),
    Field('param_schedulers', lambda value: is_list(value) or is_dict(value), 'a list or a dict'),
    Field('ema_state_dict', is_state_dict, 'a dict of tensors'),
)  # fmt: skip


@dataclass(frozen=True)
class Release:
    """How the keys of a released model were remapped to ours.

    Args:
        layout: The name of its :class:`Layout`.
        renamed: Our key of every kept one.
        ignored: Keys of the file that are not used.
        reordered: Our keys of tensors whose values have another order here.
    """

    layout: str
    renamed: Mapping[str, str]
    ignored: tuple[str, ...]
    reordered: tuple[str, ...]


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint file.

    Args:
        source: The path or URL that was given.
        path: The local file.
        weights: Tensors by key; a released model has our keys.
        meta: Metadata of a run: epoch, iteration, seed, classes.
        release: Set for a released detector, segmentor or classifier in its authors' layout.
        sections: Everything else that a run saved, such as its optimizer, by name.
        grids: Grids that position tables were saved with, by key.
        original: The checkpoint of a release as its authors named the keys.
    """

    source: str
    path: Path
    weights: Mapping[str, Tensor]
    meta: Mapping[str, Any] = field(default_factory=dict)
    release: Release | None = None
    sections: Mapping[str, Any] = field(default_factory=dict)
    grids: Mapping[str, Grid] = field(default_factory=dict)
    original: 'Checkpoint | None' = None

    def __str__(self) -> str:
        return self.source

    @property
    def dataset_meta(self) -> dict[str, Any]:
        """Classes and palette of the training data, as far as they were saved."""
        return {str(k).lower(): value for k, value in (self.meta.get('dataset_meta') or {}).items()}

    @property
    def head(self) -> Head | None:
        """The head, if it is one of ours."""
        return head_of(self.weights)

    @property
    def content(self) -> dict[str, Any]:
        """The format of mmengine's runner; its dicts may be changed."""
        state = with_grids(self.weights, self.grids)
        return {**self.sections, 'meta': dict(self.meta), 'state_dict': state}

    def grids_of(self, tensors: Mapping[str, Tensor]) -> dict[str, Grid]:
        """The grids that some of the weights were saved with, whatever their keys are now."""
        saved = {id(self.weights[key]): g for key, g in self.grids.items() if key in self.weights}
        return {key: saved[id(value)] for key, value in tensors.items() if id(value) in saved}

    def backbone_tensors(
        self, prefix: str | None = None
    ) -> tuple[dict[str, Tensor], tuple[str, ...]]:
        """Only the tensors of the backbone, without prefixes.

        Args:
            prefix: Prefix of the keys; by default the usual ones of wrappers and backbones.

        Returns:
            The tensors, and the keys of the others in the file.

        Raises:
            CheckpointError: If no key has the prefix.
        """
        tensors, outside = dict(self.weights), []
        if self.release:
            names = {new: old for old, new in self.release.renamed.items()}
            if prefix:
                tensors = {names.get(key, key): value for key, value in tensors.items()}
            else:
                heads = [key for key in tensors if not key.startswith('backbone.')]
                outside = [*(names.get(key, key) for key in heads), *self.release.ignored]
                tensors = {key: v for key, v in tensors.items() if key.startswith('backbone.')}
        prefixes = [prefix.rstrip('.') + '.', *PREFIXES] if prefix else PREFIXES
        for start in prefixes:
            inside = {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
            if inside:
                outside += [key for key in tensors if not key.startswith(start)]
                tensors = inside
            elif start not in PREFIXES:
                raise CheckpointError(
                    f'no key of {self} starts with {start!r}; its first keys are '
                    f'{listed(sorted(tensors)[:5])}'
                )
        return tensors, tuple(outside)


def require_run(checkpoint: Checkpoint) -> None:
    """Check that a checkpoint has everything that a run needs to resume."""
    try:
        check_fields(checkpoint.content, RUN, f'{checkpoint} cannot be resumed', CheckpointError)
    except CheckpointError as error:
        raise CheckpointError(
            f'{error}. To start a new run from its weights alone, use --cfg-options load_from=FILE'
        ) from error


def open_checkpoint(
    source: 'str | os.PathLike | Checkpoint', *, averaged: bool = False
) -> Checkpoint:
    """Read a checkpoint; the keys of a released model are remapped to ours.

    Args:
        source: A path, a URL or ``hf://OWNER/REPOSITORY``, see
            :func:`mmeffvit.models.checkpoints.sources.fetch`; an open one is returned unchanged.
        averaged: Use the EMA weights of a training checkpoint.

    Raises:
        CheckpointError: If it cannot be found or read safely, has no weights or invalid metadata.
    """
    if isinstance(source, Checkpoint):
        return source
    path, name = fetch(source), os.fspath(source)
    content = read_content(path)
    if not isinstance(content, Mapping):
        raise CheckpointError(f'{name} holds a {type(content).__name__}, not a dict of tensors')
    # mmengine's EMAHook exchanges both: its ema_state_dict has the weights before averaging
    is_swapped = 'message_hub' in content and 'ema_state_dict' in content
    where = AVERAGED_WEIGHTS if averaged and not is_swapped else WEIGHTS
    held = state_in(content, where)
    if averaged and held is content:
        raise CheckpointError(f'{name} holds no EMA weights under {", ".join(AVERAGED_WEIGHTS)}')
    weights, grids = weights_in(content, where), grids_in(held)
    if averaged:
        check_finite(weights, name)
    odd = [key for key in weights if not isinstance(key, str)]
    if odd or not weights:
        what = f'tensors whose keys are not strings ({odd[0]!r:.80})' if odd else 'no tensors'
        keys = listed(sorted(map(str, content)))
        raise CheckpointError(f'{name} holds {what}; its first keys are {keys:.300}')
    is_run = state_in(content) is not content
    if is_run:
        check_fields(content, META, name, CheckpointError)
    sections = {k: v for k, v in content.items() if k not in (*WEIGHTS, 'meta')} if is_run else {}
    meta = dict(content.get('meta') or {}) if is_run else {}
    weights, grids = (
        {key.removeprefix('module.'): value for key, value in each.items()}
        for each in (weights, grids)
    )
    return remap(Checkpoint(name, path, weights, meta, None, sections, grids))


def remap(checkpoint: Checkpoint) -> Checkpoint:
    """A released model with our keys; others are returned unchanged."""
    weights = checkpoint.weights
    layout = recognize(weights, model_layouts())
    if layout is None or not any(map(layout.is_of_head, weights)):
        return checkpoint
    renamed, ignored = layout.rename_model(weights)
    state, reordered = {}, []
    for old, new in renamed.items():
        try:
            state[new] = layout.change(new, weights[old])
        except Exception as error:  # of tensors with any shape and layout
            raise CheckpointError(
                f'{checkpoint}: {old} of shape {tuple(weights[old].shape)} does not fit the '
                f'{layout.name} layout ({reason(error):.80})'
            ) from error
        if state[new] is not weights[old] and state[new].shape == weights[old].shape:
            reordered.append(new)
    meta = dict(checkpoint.meta)
    if meta.get('CLASSES'):  # of mmdet 2
        meta['dataset_meta'] = dict(classes=tuple(meta['CLASSES']))
    release = Release(layout.name, renamed, tuple(ignored), tuple(reordered))
    return replace(checkpoint, weights=state, meta=meta, release=release, original=checkpoint)


def model_layouts() -> list[Layout]:
    """The layouts of released models of all families; full models come first."""
    found = chain.from_iterable(getattr(family, 'layouts', ()) for family in families().values())
    layouts = [layout for layout in dict.fromkeys(found) if layout.head is not None]
    return sorted(layouts, key=lambda layout: not layout.prefix)
