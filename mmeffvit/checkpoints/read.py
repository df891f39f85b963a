"""From a file to a flat dict of tensors, whoever wrote it, without running any code of it."""

import pickle
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mmeffvit.errors import CheckpointError

from .safe_globals import allowed, check_pickle

# where trainers keep the weights, in the order they are looked for; EMA weights only on request
WEIGHTS = ('state_dict', 'model_state_dict', 'model')
AVERAGED_WEIGHTS = ('ema_state_dict', 'model_ema', 'state_dict_ema')
# of a parallel wrapper, and of the backbone inside models of mmdet, mmseg and cvnets
PREFIXES = ('module.', 'backbone.', 'encoder.')
LISTED = 8  # names in a message
LEGACY_PICKLES = 5  # of a file of torch < 1.6, before the numbers
LARGEST_VIEW = 2**28  # bytes of a tensor that repeats fewer numbers

_non_finite_allowed: ContextVar[bool] = ContextVar('non_finite_allowed', default=False)


@contextmanager
def allow_non_finite(allow: bool = True) -> Iterator[None]:
    """Within this context, weights may be NaN or infinite."""
    token = _non_finite_allowed.set(allow)
    try:
        yield
    finally:
        _non_finite_allowed.reset(token)


def check_integrity(path: Path) -> None:
    """Refuse a torch file that was cut off or damaged, at the price of reading it once.

    Raises:
        CheckpointError: If the file is incomplete, or no regular file that can be read.
    """
    damaged = CheckpointError(
        f'{path} is truncated or damaged: its writing or its download was probably interrupted. '
        'Use an earlier checkpoint, or fetch the file again.'
    )
    try:
        if not path.is_file():  # a pipe would be waited for
            raise CheckpointError(f'checkpoint {str(path)!r} is no file')
        if not zipfile.is_zipfile(path):
            if _is_legacy(path):
                return
            raise damaged
        with zipfile.ZipFile(path) as archive:
            _check_entries(path, archive)
            bad = archive.testzip()
    except OSError as error:
        raise CheckpointError(f'{path} cannot be read: {error.strerror or error}') from error
    except CheckpointError:
        raise
    except Exception as error:  # a damaged zip directory can raise anything
        raise damaged from error
    if bad is not None:
        raise damaged


def _check_entries(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse what would take more memory than the file takes on the disk."""
    entries = archive.infolist()
    packed = [entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    if packed or sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise CheckpointError(
            f'{path} is refused: its entries are compressed ({", ".join(packed[:2])}), which torch '
            'never does; they could be inflated to any size'
        )


def _is_legacy(path: Path) -> bool:
    """Whether the file is a pickle of torch < 1.6, which has no checksums."""
    with path.open('rb') as file:
        return file.read(1) == pickle.PROTO


def load_torch_file(path: str | Path, map_location: Any = 'cpu') -> Any:
    """``torch.load`` with ``weights_only=True`` and stand-ins for what mmengine's runner saves.

    Args:
        path: The file.
        map_location: As for ``torch.load``.

    Raises:
        CheckpointError: If the file is incomplete, holds an object of a class that is not known to
            be safe (the message names the class), or NaN or infinite weights.
    """
    path = Path(path)
    check_integrity(path)
    try:
        _check_pickles(path)
        with allowed():
            content = torch.load(path, map_location=map_location, weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(describe_refusal(path, error)) from error
    except Exception as error:  # hostile bytes can raise anything
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise CheckpointError(f'{path} is no torch checkpoint ({reason[0]})') from error
    check_finite(weights_in(content), path)
    return content


def _check_pickles(path: Path) -> None:
    if not zipfile.is_zipfile(path):
        with path.open('rb') as file:
            check_pickle(file, LEGACY_PICKLES)
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith('data.pkl'):
                with archive.open(name) as file:
                    check_pickle(file)


def describe_refusal(path: Path, error: pickle.UnpicklingError) -> str:
    """Say which classes of ``path`` keep it from being loaded safely."""
    try:
        with allowed():
            names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # a legacy or a hostile file cannot be listed
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


def weights_in(content: Any, names: tuple[str, ...] = WEIGHTS) -> dict[str, Tensor]:
    """The tensors by key under the first of ``names`` that ``content`` has, else its own."""
    if not isinstance(content, Mapping):
        return {}
    holder = next((content[name] for name in names if _is_state_dict(content, name)), content)
    return {key: value for key, value in holder.items() if isinstance(value, Tensor)}


def check_finite(tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Refuse weights that training has lost, unless :func:`allow_non_finite` holds.

    Raises:
        CheckpointError: If one is NaN or infinite; the message names it.
    """
    tensors = {
        key: value
        for key, value in tensors.items()
        if (value.is_floating_point() or value.is_complex())
        and value.layout == torch.strided
        and not value.is_meta
    }
    for key, value in tensors.items():
        if value.nbytes > max(value.untyped_storage().nbytes(), LARGEST_VIEW):
            raise CheckpointError(
                f'{path} is refused: {key!s:.80} would take {value.nbytes:,} bytes of memory, and '
                'the file has not as many'
            )
    if _non_finite_allowed.get():
        return
    bad = [str(key) for key, value in tensors.items() if not _is_finite(value)]
    if bad:
        more = ' ...' * (len(bad) > LISTED)
        raise CheckpointError(
            f'{path} has NaN or infinite values in {len(bad)} tensors: {", ".join(bad[:LISTED])}'
            f'{more}. Its training has probably diverged: use an earlier checkpoint; '
            '--allow-non-finite loads it all the same'
        )


def _is_finite(value: Tensor) -> bool:
    try:
        # of float8 torch converts the values, and does nothing else with them
        return bool((value.float() if value.dtype.itemsize == 1 else value).isfinite().all())
    except NotImplementedError:  # float4: no module can be given its values either
        return True


def read_checkpoint(path: Path, *, averaged: bool = False) -> Weights:
    """Read the weights in ``path``: a torch file or a safetensors file.

    Args:
        path: The file.
        averaged: Take the EMA weights that a training checkpoint holds.

    Returns:
        The tensors by key, without wrapper prefixes.

    Raises:
        CheckpointError: If the file cannot be read, or holds no weights.
    """
    if path.suffix == '.safetensors':
        return strip_prefixes(read_safetensors(path))
    content = load_torch_file(path)
    if not isinstance(content, Mapping):
        raise CheckpointError(f'{path} holds a {type(content).__name__}, not a dict of tensors')
    if averaged and not any(_is_state_dict(content, name) for name in AVERAGED_WEIGHTS):
        raise CheckpointError(f'{path} holds no EMA weights under {", ".join(AVERAGED_WEIGHTS)}')
    tensors = weights_in(content, AVERAGED_WEIGHTS if averaged else WEIGHTS)
    tensors = {key: value for key, value in tensors.items() if isinstance(key, str)}
    if not tensors:
        keys = sorted(map(str, content))[:LISTED]
        raise CheckpointError(f'{path} holds no tensors; its first keys are {keys}')
    if averaged:
        check_finite(tensors, path)
    return strip_prefixes(tensors)


def _is_state_dict(content: Mapping, name: str) -> bool:
    return isinstance(content.get(name), Mapping)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        CheckpointError: If it cannot be read, or holds NaN or infinite weights.
    """
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise CheckpointError(f'{path} needs safetensors: `pip install "mmeffvit[hub]"`') from error
    if not path.is_file():
        raise CheckpointError(f'checkpoint {str(path)!r} is no file')
    try:
        tensors = load_file(path)
    except OSError as error:
        raise CheckpointError(f'{path} cannot be read: {error.strerror or error}') from error
    except Exception as error:  # SafetensorError, and what torch says of odd types and shapes
        raise CheckpointError(
            f'{path} is truncated or damaged ({error}). Fetch the file again.'
        ) from error
    check_finite(tensors, path)
    return tensors


def strip_prefixes(tensors: dict[str, Tensor]) -> Weights:
    """Remove wrapper prefixes, and keep only the backbone of a detector or segmentor."""
    outside: list[str] = []
    for prefix in PREFIXES:
        inside = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        if inside:
            outside += [key for key in tensors if not key.startswith(prefix)]
            tensors = inside
    return Weights(tensors, tuple(outside))
