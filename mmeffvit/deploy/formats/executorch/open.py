"""ExecuTorch, PyTorch's runtime for phones."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmeffvit.deploy.runtime.sessions import Session, check_images
from mmeffvit.utils.optional import require


def load(path: Path, threads: int, **_: Any) -> Session:
    """Outputs have numbers instead of names; all programs share the number of threads."""
    runtime = require('executorch.runtime', 'Reading .pte')
    if threads:
        library = require('executorch.extension.pybindings.portable_lib', 'Reading .pte')
        library._unsafe_reset_threadpool(threads)  # unsafe while a program runs
    program = runtime.Runtime.get().load_program(str(path))
    loaded = program, program.load_method('forward')  # a method does not keep its program alive
    shape = tuple(loaded[1].metadata.input_tensor_meta(0).sizes())

    def run(images: NDArray) -> dict[str, NDArray]:
        import torch

        check_images(images, shape)
        # the runtime ignores strides; its outputs share memory that the next call overwrites
        outputs = loaded[1].execute([torch.from_numpy(np.ascontiguousarray(images))])
        return {str(index): output.numpy().copy() for index, output in enumerate(outputs)}

    return Session(shape, (), {}, run)
