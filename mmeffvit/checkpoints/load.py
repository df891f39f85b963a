"""Released weights into one of our backbones, with every tensor accounted for."""

import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mmengine.logging import print_log
from torch import Tensor

from .errors import CheckpointError
from .read import read_checkpoint
from .rename import recognise, rename
from .sources import fetch

if TYPE_CHECKING:
    from mmeffvit.backbones import Backbone


def load_pretrained(
    backbone: 'Backbone', checkpoint: str | os.PathLike, *, prefix: str | None = None
) -> None:
    """Load ``checkpoint`` into ``backbone``; the layout is recognised, the keys are converted.

    Logs one line that counts the tensors loaded, dropped on purpose (the classifier, and stages
    that the backbone does not build) and missing on purpose (output norms, which start fresh).

    Args:
        backbone: The backbone; it is unchanged when an error is raised.
        checkpoint: A path, an http(s) address or ``hf://OWNER/REPOSITORY``; see
            :func:`mmeffvit.checkpoints.sources.fetch`.
        prefix: Read only the keys that start so, and cut this off.

    Raises:
        CheckpointError: If the file cannot be found or read, its layout is unknown, or a tensor is
            missing, left over or of another shape.
    """
    tensors = read_checkpoint(fetch(checkpoint))
    if prefix:
        tensors = _below(tensors, prefix, checkpoint)
    layout = recognise(tensors, backbone.layouts)
    if layout is None:
        raise CheckpointError(
            f'{checkpoint} is no checkpoint of {type(backbone).__name__}: no key matches '
            + ', '.join(f'{entry.marker!r} ({entry.name})' for entry in backbone.layouts)
            + f'. Its first keys are {sorted(tensors)[:5]}.'
        )
    renamed, dropped = rename(tensors, layout.table)
    state = {new: tensors[old] for old, new in renamed.items()}
    target = backbone.state_dict()
    unbuilt = [key for key in state if _is_unbuilt(key, len(backbone.stages))]
    # fresh batch norms of a backbone that returns other maps than the one that was saved
    unused = [key for key in state if key.startswith('output_norms.') and key not in target]
    for key in (*unbuilt, *unused):
        del state[key]
    missing = [key for key in target if key not in state]
    fresh = [key for key in missing if _starts_fresh(key)]
    _require_fit(checkpoint, state, target, set(missing) - set(fresh))
    backbone.load_state_dict(
        {key: value.reshape(target[key].shape) for key, value in state.items()}, strict=False
    )
    print_log(
        f'{checkpoint} ({layout.name} layout): {len(state)} tensors loaded, '
        f'{len(dropped) + len(unbuilt) + len(unused)} dropped on purpose, '
        f'{len(fresh)} missing on purpose',
        logger='current',
        level=logging.INFO,
    )


def _below(tensors: dict[str, Tensor], prefix: str, checkpoint: object) -> dict[str, Tensor]:
    prefix = prefix.rstrip('.') + '.'
    inside = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    # read_checkpoint has cut off the usual ones already
    if not inside and prefix not in ('backbone.', 'module.'):
        raise CheckpointError(f'no key of {checkpoint} starts with {prefix!r}')
    return inside or tensors


def _is_unbuilt(key: str, num_stages: int) -> bool:
    parts = key.split('.')
    return parts[0] == 'stages' and int(parts[1]) >= num_stages


def _starts_fresh(key: str) -> bool:
    # a counter that some releases leave out; it has no effect at a fixed momentum
    return key.startswith('output_norms.') or key.endswith('.num_batches_tracked')


def _require_fit(
    checkpoint: object, state: dict[str, Tensor], target: dict[str, Tensor], missing: Iterable[str]
) -> None:
    left_over = [key for key in state if key not in target]
    wrong = [
        f'{key}: {tuple(state[key].shape)} in the file, {tuple(target[key].shape)} in the model'
        for key in state
        if key in target and _dense_shape(state[key]) != _dense_shape(target[key])
    ]
    complaints = [
        f'{title} ({len(items)}): ' + '; '.join(sorted(items)[:8]) + (' ...' * (len(items) > 8))
        for title, items in (
            ('missing in the file', list(missing)),
            ('not in the model', left_over),
            ('of another shape', wrong),
        )
        if items
    ]
    if complaints:
        raise CheckpointError(
            f'{checkpoint} does not fit the model. ' + '. '.join(complaints) + '. Is `arch` the '
            'variant of the checkpoint?'
        )


def _dense_shape(tensor: Tensor) -> tuple[int, ...]:
    """Shape without ones: a linear layer's (C, D) is a 1x1 convolution's (C, D, 1, 1)."""
    return tuple(side for side in tensor.shape if side != 1)
