"""torchvision's operators, if they can be loaded."""

import warnings
from functools import cache

import torch
from torch import Tensor


def has_torchvision(x: Tensor) -> bool:
    """Whether torchvision's operators run on the device of this tensor."""
    return x.device.type in devices()


@cache
def devices() -> tuple[str, ...]:
    """The devices that the installed torchvision has operators for, none if it does not load.

    It does not where torch is a CPU build and torchvision a CUDA build.
    """
    try:
        import torchvision

        torch.ops.torchvision.roi_align  # noqa: B018, raises if the library did not load
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        warnings.warn(
            f'torchvision does not load with torch {torch.__version__} ({reason}): its operators '
            'run in plain PyTorch. Install the build of torchvision for this torch.',
            stacklevel=2,
        )
        return ()
    on_gpu = torchvision.version.cuda or getattr(torchvision.version, 'hip', None)
    return ('cpu', 'mps', 'cuda') if on_gpu else ('cpu', 'mps')


def in_float32(x: Tensor) -> Tensor:
    """Return ``x`` in float32, or unchanged in float64."""
    return x if x.dtype == torch.float64 else x.float()
