"""Read torch and safetensors files without running any code in them."""

import pickle
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmeffvit.errors import CheckpointError
from mmeffvit.utils.optional import install_command
from mmeffvit.utils.text import counted, first_line, listed

from .safe_globals import allowed, check_pickle
from .state import GRIDS, grids_in_text, with_grids

# where trainers store the weights, in the order of the search; EMA weights only on request
WEIGHTS = ('state_dict', 'model_state_dict', 'model')
AVERAGED_WEIGHTS = ('ema_state_dict', 'model_ema', 'state_dict_ema')
EXPORTED = ('.onnx', '.xml', '.tflite', '.pte', '.param', '.mlpackage')
LEGACY_PICKLES = 5  # of a file of torch < 1.6, before the values
MAX_VIEW = 2**28  # bytes of a tensor that repeats fewer values

# None outside of our commands
_non_finite_allowed: ContextVar[bool | None] = ContextVar('non_finite_allowed', default=None)


@contextmanager
def allow_non_finite(allow: bool = True) -> Iterator[None]:
    """Within this context of a command, NaN and infinite weights are allowed or rejected."""
    token = _non_finite_allowed.set(allow)
    try:
        yield
    finally:
        _non_finite_allowed.reset(token)


def is_command() -> bool:
    """Whether one of our commands runs, see :func:`allow_non_finite`."""
    return _non_finite_allowed.get() is not None


def non_finite_allowed() -> bool:
    """Whether a command runs that accepts NaN and infinite weights."""
    return bool(_non_finite_allowed.get())


def check_integrity(path: Path) -> None:
    """Reject a truncated or damaged torch file, at the cost of reading it once."""
    if path.suffix.lower() in EXPORTED:
        raise CheckpointError(f'{path} is an exported file, not a checkpoint: give it alone')
    damaged = CheckpointError(
        f'{path} is truncated or damaged: its writing or its download was probably interrupted. '
        'Use an earlier checkpoint, or fetch the file again.'
    )
    try:
        if not path.is_file():  # reading a pipe would block
            raise CheckpointError(f'checkpoint {str(path)!r} is not a file')
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                _check_entries(path, archive)
                is_whole = archive.testzip() is None
        else:  # a pickle of torch < 1.6 has no checksums
            with path.open('rb') as file:
                is_whole = file.read(1) == pickle.PROTO
    except OSError as error:
        raise CheckpointError(f'{path} cannot be read: {error.strerror or error}') from error
    except CheckpointError:
        raise
    except Exception as error:  # a damaged zip directory can raise anything
        raise damaged from error
    if not is_whole:
        raise damaged


def _check_entries(path: Path, archive: zipfile.ZipFile) -> None:
    """Reject entries that need more memory than the file has on disk."""
    entries = archive.infolist()
    packed = [entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    if packed:
        raise CheckpointError(
            f'{path} is rejected: its entries are compressed ({", ".join(packed[:2])}), which '
            'torch never does; they could be inflated to any size'
        )
    if sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise CheckpointError(f'{path} is rejected: its entries are larger than the file')


def read_content(path: str | Path, map_location: Any = 'cpu', *, finite: bool = True) -> Any:
    """The content of a torch file, or the tensors of a safetensors file as ``state_dict``.

    Torch files are read with ``weights_only=True`` and safe stand-ins for objects of mmengine.

    Args:
        path: The file.
        map_location: See ``torch.load``.
        finite: Reject NaN and infinite weights, unless :func:`allow_non_finite` holds.

    Raises:
        CheckpointError: If the file is incomplete, or has an object of a class that is not known to
            be safe (the message names the class), or NaN or infinite weights.
    """
    path = Path(path)
    if path.suffix.lower() == '.safetensors':
        content: Any = dict(state_dict=_read_safetensors(path))
    else:
        content = _read_torch(path, map_location)
    weights = weights_in(content)
    check_sizes(weights, path)
    if finite:
        check_finite(weights, path)
    return content


def _read_torch(path: Path, map_location: Any) -> Any:
    check_integrity(path)
    try:
        _check_pickles(path)
        with allowed():
            return torch.load(path, map_location=map_location, weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(describe_refusal(path, error)) from error
    except Exception as error:  # hostile bytes can raise anything
        reason = first_line(error) or type(error).__name__
        raise CheckpointError(f'{path} is not a torch checkpoint ({reason})') from error


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
    """Name the classes that keep ``path`` from being loaded safely."""
    try:
        with allowed():
            names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # a legacy or a hostile file cannot be listed
        names = []
    # torch wraps the error in its advice to load the file anyway
    cause = error.__context__ or error
    reason = (
        f'it holds objects of {listed(f"{name:.80}" for name in names)}'
        if names
        else first_line(cause)
    )
    return (
        f'{path} is rejected: {reason}, and unpickling these could run any code. '
        'Only tensors, plain values and the classes of the training engine are loaded. If you '
        'trust the file, load it yourself and save its state dict alone.'
    )


def weights_in(content: Any, names: tuple[str, ...] = WEIGHTS) -> dict[str, Tensor]:
    """The tensors by key under the first of ``names`` that ``content`` has, else its own."""
    holder = state_in(content, names)
    return {key: value for key, value in holder.items() if isinstance(value, Tensor)}


def state_in(content: Any, names: tuple[str, ...] = WEIGHTS) -> Mapping:
    """The first dict under one of ``names`` in ``content``, else ``content`` itself."""
    if not isinstance(content, Mapping):
        return {}
    held = (content.get(name) for name in names)
    return next((value for value in held if isinstance(value, Mapping)), content)


def check_sizes(tensors: Mapping[Any, Tensor], path: str | Path) -> None:
    """Reject tensors that repeat few values of the file so often that they fill the memory."""
    for key, value in tensors.items():
        if _has_values(value) and value.nbytes > max(value.untyped_storage().nbytes(), MAX_VIEW):
            raise CheckpointError(
                f'{path} is rejected: {key!s:.80} would take {value.nbytes:,} bytes of memory, '
                'more than the file has'
            )


def check_finite(tensors: Mapping[Any, Tensor], path: str | Path) -> None:
    """Reject NaN and infinite weights, unless :func:`allow_non_finite` holds."""
    if non_finite_allowed():
        return
    bad = [str(k) for k, value in tensors.items() if _has_values(value) and not _is_finite(value)]
    if bad:
        raise CheckpointError(
            f'{path} has NaN or infinite values in {counted(len(bad), "tensor")}: {listed(bad)}. '
            'Its training has probably diverged: use an earlier checkpoint; --allow-non-finite '
            'loads it anyway'
        )


def _has_values(value: Tensor) -> bool:
    is_number = value.is_floating_point() or value.is_complex()
    return is_number and value.layout == torch.strided and not value.is_meta


def _is_finite(value: Tensor) -> bool:
    try:
        # torch can convert float8 values, but not test them
        return bool((value.float() if value.dtype.itemsize == 1 else value).isfinite().all())
    except NotImplementedError:  # float4: no module can be given its values either
        return True


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        from safetensors import safe_open
        from safetensors.torch import load_file
    except ImportError as error:
        raise CheckpointError(
            f'{path} needs safetensors: `{install_command("safetensors")}`'
        ) from error
    if not path.is_file():
        raise CheckpointError(f'checkpoint {str(path)!r} is not a file')
    try:
        with safe_open(path, 'pt') as file:
            grids = grids_in_text((file.metadata() or {}).get(GRIDS))
        return with_grids(load_file(path), grids)
    except OSError as error:
        raise CheckpointError(f'{path} cannot be read: {error.strerror or error}') from error
    except Exception as error:  # SafetensorError, and errors of torch for odd types and shapes
        raise CheckpointError(
            f'{path} is truncated or damaged ({first_line(error)}). Fetch the file again.'
        ) from error
