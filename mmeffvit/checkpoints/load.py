"""Released weights into a module, with every tensor accounted for."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from mmeffvit.errors import CheckpointError

from .read import PREFIXES, read_checkpoint
from .rename import Layout, recognize, rename
from .sources import fetch

# a counter that some releases leave out; it has no effect at a fixed momentum
COUNTERS = r'\.num_batches_tracked$'
NO_PART = 'no part of a backbone'


@dataclass(frozen=True)
class LoadReport:
    """What became of every tensor, by key; an unexpected one would have been an error."""

    checkpoint: str
    layout: str
    loaded: tuple[str, ...]
    resized: tuple[str, ...]
    dropped: tuple[str, ...]
    missing: tuple[str, ...]
    reordered: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()  # for another number of classes: they keep their first values
    reasons: Mapping[str, str] = field(default_factory=dict)  # for ignoring, by key

    def __str__(self) -> str:
        resized = f'{len(self.resized)} of them resized, ' if self.resized else ''
        reordered = f'{len(self.reordered)} of them reordered, ' if self.reordered else ''
        fresh = f', {len(self.fresh)} start fresh for other classes' if self.fresh else ''
        return (
            f'{self.checkpoint} ({self.layout} layout): {len(self.loaded)} tensors loaded, '
            f'{reordered}{resized}{len(self.dropped)} ignored, {len(self.missing)} missing{fresh}'
        )

    def by_tensor(self) -> str:
        """A line per tensor: our key of a loaded one and how, the key of an ignored one and why."""
        changed = dict.fromkeys(self.reordered, ', reordered') | dict.fromkeys(
            self.resized, ', resized'
        )
        lines = [f'loaded      {key}{changed.get(key, "")}' for key in self.loaded]
        lines += [f'ignored     {key}: {self.reasons.get(key, NO_PART)}' for key in self.dropped]
        lines += [f'starts anew {key}' for key in (*self.missing, *self.fresh)]
        return '\n'.join(lines)


def load_weights(
    module: nn.Module,
    checkpoint: str | os.PathLike,
    layouts: Iterable[Layout],
    *,
    prefix: str | None = None,
    unused: Mapping[str, str] | None = None,
    fresh: str | None = None,
    adapt: Callable[[dict[str, Tensor]], dict[str, Tensor]] | None = None,
) -> LoadReport:
    """Load ``checkpoint`` into ``module``; its layout is recognized and its keys are converted.

    Args:
        module: Gets the weights; it is unchanged when an error is raised.
        checkpoint: A path, an http(s) address or ``hf://OWNER/REPOSITORY``; see
            :func:`mmeffvit.checkpoints.sources.fetch`.
        layouts: Layouts the checkpoint may have.
        prefix: Read only the keys that start so, and cut this off.
        unused: Patterns of converted keys that the module may lack, with the reason.
        fresh: Pattern of the module's keys that the checkpoint may lack.
        adapt: Given the converted tensors, returns those that must be resized to fit, resized.

    Returns:
        What was loaded, ignored and missing.

    Raises:
        CheckpointError: If the file cannot be found or read, its layout is unknown, or a tensor is
            missing, left over or of another shape.
    """
    tensors, outside = read_checkpoint(fetch(checkpoint))
    if prefix:
        tensors = below(tensors, prefix, checkpoint)
    layouts = list(layouts)
    layout = recognize(tensors, layouts)
    if layout is None:
        markers = ', '.join(f'{entry.marker!r} ({entry.name})' for entry in layouts)
        raise CheckpointError(
            f'{checkpoint} is no checkpoint of {type(module).__name__}: no key matches {markers}. '
            f'Its first keys are {sorted(tensors)[:5]}.'
        )
    renamed, dropped = rename(tensors, layout.table)
    target = module.state_dict()
    skipped = reasons_to_skip({k: v for k, v in renamed.items() if v not in target}, unused or {})
    state = {new: tensors[old] for old, new in renamed.items() if old not in skipped}
    resized = adapt(state) if adapt else {}
    state |= resized
    missing = [key for key in target if key not in state]
    lacking = [key for key in missing if not _matches(fresh, key)]
    require_fit(str(checkpoint), state, target, lacking, 'Is `arch` the variant of the checkpoint?')
    put(module, {key: value.reshape(target[key].shape) for key, value in state.items()}, checkpoint)
    return LoadReport(
        checkpoint=str(checkpoint),
        layout=layout.name,
        loaded=tuple(state),
        resized=tuple(resized),
        dropped=(*outside, *dropped, *skipped),
        missing=tuple(missing),
        reasons=skipped,
    )


def reasons_to_skip(renamed: Mapping[str, str], unused: Mapping[str, str]) -> dict[str, str]:
    """Why keys may be ignored; those that may not are left out.

    Args:
        renamed: The converted key of each.
        unused: Patterns of converted keys that are not used, with the reason.
    """
    unused = {**unused, COUNTERS: 'a counter that this model has not'}
    return {
        key: next(reason for pattern, reason in unused.items() if re.search(pattern, new))
        for key, new in renamed.items()
        if any(re.search(pattern, new) for pattern in unused)
    }


def put(module: nn.Module, state: dict[str, Tensor], checkpoint: object) -> None:
    """Copy ``state`` into ``module``, all of it or nothing.

    Raises:
        CheckpointError: If torch cannot copy a tensor; the module is unchanged then.
    """
    before = {key: value.clone() for key, value in module.state_dict().items() if key in state}
    try:
        module.load_state_dict(state, strict=False)
    except Exception as error:  # RuntimeError by default, else what a module's own hooks raise
        module.load_state_dict(before, strict=False)
        raise CheckpointError(f'{checkpoint} cannot be loaded: {error}') from error


def is_counter(key: str) -> bool:
    """Whether ``key`` counts batches: some releases leave these out."""
    return bool(re.search(COUNTERS, key))


def _matches(pattern: str | None, key: str) -> bool:
    return is_counter(key) or bool(pattern and re.search(pattern, key))


def below(tensors: dict[str, Tensor], prefix: str, checkpoint: object) -> dict[str, Tensor]:
    """Return the tensors whose keys start with ``prefix``, without it.

    Raises:
        CheckpointError: If there is none.
    """
    prefix = prefix.rstrip('.') + '.'
    inside = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    # read_checkpoint has cut off the usual ones already
    if not inside and prefix not in PREFIXES:
        raise CheckpointError(f'no key of {checkpoint} starts with {prefix!r}')
    return inside or tensors


def require_fit(
    name: str,
    state: Mapping[str, Tensor],
    target: Mapping[str, Tensor],
    missing: Collection[str],
    cure: str,
) -> None:
    """Refuse tensors that are left over or of another shape or kind, and ``missing`` ones.

    Raises:
        CheckpointError: If there are any; it says so of ``name``, and ends in ``cure``.
    """
    left_over = [key for key in state if key not in target]
    wrong = [
        f'{key}: {tuple(state[key].shape)} in the file, {tuple(target[key].shape)} in the model'
        for key in state
        if key in target and not same_size(state[key], target[key])
    ]
    complaints = [
        f'{title} ({len(items)}): ' + '; '.join(sorted(items)[:8]) + (' ...' * (len(items) > 8))
        for title, items in (
            ('missing in the file', missing),
            ('not in the model', left_over),
            ('of another shape', wrong),
            ('of another kind', wrong_kinds(state, target)),
        )
        if items
    ]
    if complaints:
        raise CheckpointError(f'{name} does not fit the model. {". ".join(complaints)}. {cure}')


def wrong_kinds(state: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> list[str]:
    """Tensors that are of integers, booleans or complex numbers in place of floats, or sparse.

    Copying would change their values without a word. Floats of other widths are no fault.
    """
    return [
        f'{key}: {value.dtype} in the file, {target[key].dtype} in the model'
        for key, value in state.items()
        if key in target
        and (
            value.is_floating_point() != target[key].is_floating_point()
            or value.is_complex() != target[key].is_complex()
            or (value.dtype == torch.bool) != (target[key].dtype == torch.bool)
            or value.layout != torch.strided
        )
    ]


def same_size(tensor: Tensor, other: Tensor) -> bool:
    """Whether the shapes agree but for ones.

    A linear layer's (C, D) is a 1x1 convolution's (C, D, 1, 1).
    """
    dense, other_dense = ([side for side in t.shape if side != 1] for t in (tensor, other))
    return dense == other_dense
