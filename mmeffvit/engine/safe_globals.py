"""What a checkpoint of mmengine's runner holds beside tensors, declared safe to load.

From torch 2.6 on, ``torch.load`` unpickles only what is known to be harmless. The log history in a
runner's checkpoint is not, so mmengine 0.10.7 can neither resume nor test its own files there.
"""

import _codecs
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from mmengine.logging import HistoryBuffer

STATISTICS = ('min', 'max', 'current', 'mean')
NUMBERS = ('float64', 'float32', 'int64', 'int32', 'uint8', 'bool')


def statistic_of(owner: Any, name: str) -> Callable:
    """Stand in for ``getattr`` while unpickling: the statistics of a log history, nothing else.

    Raises:
        pickle.UnpicklingError: For any other attribute; a file may not reach for it.
    """
    if owner is not HistoryBuffer or name not in STATISTICS:
        raise pickle.UnpicklingError(f'a checkpoint may not use {name!r} of {owner!r}')
    return getattr(HistoryBuffer, name)


def allow_runner_checkpoints() -> None:
    """Let ``torch.load(..., weights_only=True)`` read the checkpoints of mmengine's runner.

    Adds the log history, numpy's arrays, scalars and number types: classes that hold values and
    run no code of the file's choosing. Files written with numpy 1 name them otherwise.
    """
    if not hasattr(torch.serialization, 'get_unsafe_globals_in_checkpoint'):
        return  # torch < 2.6 loads everything unless told otherwise
    core = np._core if hasattr(np, '_core') else np.core
    reconstruct, scalar = core.multiarray._reconstruct, core.multiarray.scalar
    torch.serialization.add_safe_globals(
        [
            HistoryBuffer,
            (statistic_of, 'builtins.getattr'),
            _codecs.encode,
            np.ndarray,
            np.dtype,
            *(type(np.dtype(number)) for number in NUMBERS),
            *(
                (function, f'{module}.multiarray.{function.__name__}')
                for module in ('numpy._core', 'numpy.core')
                for function in (reconstruct, scalar)
            ),
        ]
    )
