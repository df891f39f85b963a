"""Running programs of ExecuTorch on the CPU."""

import os

from torch import Tensor

from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require


class ExecuTorch:
    """A program run by ExecuTorch.

    Args:
        path: The ``.pte`` file.
        threads: Number of threads, for all programs of the process; 0 for ExecuTorch's default.

    Attributes:
        shape: Shape of the images, (1, 3, H, W).

    Raises:
        UserError: If executorch is not installed.
    """

    def __init__(self, path: str | os.PathLike, *, threads: int = 0) -> None:
        self.path = path
        runtime = require('executorch.runtime', 'Reading .pte')
        if threads:
            library = require('executorch.extension.pybindings.portable_lib', 'Reading .pte')
            library._unsafe_reset_threadpool(threads)  # unsafe while a program runs
        # a method does not keep its program alive
        self.program = runtime.Runtime.get().load_program(str(path))
        self.method = self.program.load_method('forward')
        self.shape = tuple(self.method.metadata.input_tensor_meta(0).sizes())

    def __call__(self, images: Tensor) -> tuple[Tensor, ...]:
        """Outputs for images (1, 3, H, W).

        Raises:
            UserError: If the images are not of the program's size.
        """
        if tuple(images.shape) != self.shape:
            raise UserError(
                f'{self.path} takes images of shape {self.shape}, not {tuple(images.shape)}'
            )
        # the runtime ignores strides; its outputs share memory that the next call overwrites
        outputs = self.method.execute([images.contiguous()])
        return tuple(output.clone() for output in outputs)
