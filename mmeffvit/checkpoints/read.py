"""From a file to a flat dict of tensors, whoever wrote it."""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .errors import CheckpointError

# where trainers keep the weights, in the order they are looked for; averaged ones only on request
WEIGHTS = ('state_dict', 'model_state_dict', 'model')
AVERAGED_WEIGHTS = ('ema_state_dict', 'model_ema', 'state_dict_ema')
# of a parallel wrapper, and of the backbone inside the hosts' models and inside those of cvnets
PREFIXES = ('module.', 'backbone.', 'encoder.')


def check_integrity(path: Path) -> None:
    """Refuse a torch file that was cut off or damaged, at the price of reading it once.

    Raises:
        CheckpointError: If the file is not whole.
    """
    damaged = CheckpointError(
        f'{path} is truncated or damaged: its writing or its download was probably interrupted. '
        'Use an earlier checkpoint, or fetch the file again.'
    )
    if not zipfile.is_zipfile(path):
        if _is_legacy(path):
            return
        raise damaged
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise damaged from error
    if bad is not None:
        raise damaged


def _is_legacy(path: Path) -> bool:
    """Whether the file is a pickle of torch < 1.6, which has no checksums."""
    with path.open('rb') as file:
        return file.read(1) == pickle.PROTO


def load_torch_file(path: Path) -> Any:
    """``torch.load`` on the CPU with ``weights_only=True``.

    Raises:
        CheckpointError: If the file is not whole, or holds an object of a class that is not known
            to be safe; the message names the class.
    """
    check_integrity(path)
    try:
        return torch.load(path, map_location='cpu', weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(describe_refusal(path, error)) from error
    except (RuntimeError, EOFError) as error:
        raise CheckpointError(f'{path} is no torch checkpoint ({error})') from error


def describe_refusal(path: Path, error: pickle.UnpicklingError) -> str:
    """Say which classes of ``path`` keep it from being loaded safely."""
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except (ValueError, RuntimeError):  # a legacy file cannot be listed
        names = []
    # torch puts its advice to load the file all the same around what went wrong
    cause = error.__context__ or error
    reason = f'it holds objects of {", ".join(names)}' if names else str(cause).splitlines()[0]
    return (
        f'{path} is refused: {reason}, and unpickling these could run any code. '
        'Only tensors, plain values and the classes of the training engine are loaded. If you '
        'trust the file, load it yourself and save its state dict alone.'
    )


class Weights(NamedTuple):
    """The tensors of a backbone by key, and the keys of the model around it."""

    tensors: dict[str, Tensor]
    outside: tuple[str, ...]


def read_checkpoint(path: Path, *, averaged: bool = False) -> Weights:
    """Read the weights in ``path``: a torch file or a safetensors file.

    Args:
        path: The file.
        averaged: Take the exponential moving average that a training checkpoint holds.

    Returns:
        The tensors by key, without wrapper prefixes.

    Raises:
        CheckpointError: If the file cannot be read, or holds no weights.
    """
    if path.suffix == '.safetensors':
        return strip_prefixes(_read_safetensors(path))
    content = load_torch_file(path)
    names = AVERAGED_WEIGHTS if averaged else WEIGHTS
    holder = next((content[name] for name in names if _is_state_dict(content, name)), None)
    if holder is None and averaged:
        raise CheckpointError(f'{path} holds no averaged weights under {", ".join(names)}')
    holder = content if holder is None else holder
    if not isinstance(holder, Mapping):
        raise CheckpointError(f'{path} holds a {type(holder).__name__}, not a dict of tensors')
    tensors = {key: value for key, value in holder.items() if isinstance(value, Tensor)}
    if not tensors:
        raise CheckpointError(f'{path} holds no tensors; its keys are {sorted(map(str, holder))}')
    return strip_prefixes(tensors)


def _is_state_dict(content: Any, name: str) -> bool:
    return isinstance(content, Mapping) and isinstance(content.get(name), Mapping)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise CheckpointError(f'{path} needs safetensors: `pip install "mmeffvit[hub]"`') from error
    try:
        return load_file(path)
    except SafetensorError as error:
        raise CheckpointError(
            f'{path} is truncated or damaged ({error}). Fetch the file again.'
        ) from error


def strip_prefixes(tensors: dict[str, Tensor]) -> Weights:
    """Unwrap the model; of a whole detector or segmentor keep the backbone alone."""
    outside: list[str] = []
    for prefix in PREFIXES:
        inside = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        if inside:
            outside += [key for key in tensors if not key.startswith(prefix)]
            tensors = inside
    return Weights(tensors, tuple(outside))
