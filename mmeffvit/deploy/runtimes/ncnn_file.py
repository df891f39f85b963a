"""Running files of ncnn on the CPU. Without torch, as on the target."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require

INPUT = 'images'


class Ncnn:
    """A file run by ncnn on the CPU.

    Args:
        path: The ``.param`` file; its weights are next to it.
        threads: Number of threads.
        half: Compute in float16 where ncnn has kernels for this CPU, otherwise in float32.

    Attributes:
        outputs: Names of the outputs.

    Raises:
        UserError: If ncnn is not installed, or cannot read the file.
    """

    def __init__(self, path: str | os.PathLike, *, threads: int = 1, half: bool = False) -> None:
        self.path = path
        self.ncnn = require('ncnn', 'Reading .param')
        self.net = self.ncnn.Net()
        self.net.opt.num_threads = threads
        self.net.opt.use_vulkan_compute = False
        self.net.opt.use_bf16_storage = False
        for name in ('fp16_packed', 'fp16_storage', 'fp16_arithmetic'):
            setattr(self.net.opt, f'use_{name}', half)
        weights = Path(path).with_suffix('.bin')
        if self.net.load_param(str(path)) or self.net.load_model(str(weights)):
            raise UserError(f'ncnn cannot read {path} and its .bin')
        self.outputs = tuple(self.net.output_names())

    def __call__(self, images: NDArray) -> dict[str, NDArray]:
        """Outputs by name for images (1, 3, H, W).

        Raises:
            UserError: If ncnn cannot run the file.
        """
        extractor = self.net.create_extractor()
        # a Mat borrows the memory of the array; its clone owns its own
        image = np.ascontiguousarray(images[0])
        extractor.input(INPUT, self.ncnn.Mat(image).clone())
        outputs = {}
        for name in self.outputs:
            status, value = extractor.extract(name)
            if status:
                raise UserError(
                    f'ncnn cannot compute {name} of {self.path}: its status is {status}'
                )
            outputs[name] = np.array(value)[None]
        return outputs
