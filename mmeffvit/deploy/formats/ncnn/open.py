"""ncnn, Tencent's runtime for phones and boards."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmeffvit.deploy.runtime.resizing import fixed_size
from mmeffvit.deploy.runtime.sessions import INPUT, Session, check_images
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_json
from mmeffvit.utils.optional import require


def load(path: Path, threads: int, *, half: bool, **_: Any) -> Session:
    """Its weights and metadata are in the files next to it."""
    ncnn = require('ncnn', 'Reading .param')
    net = ncnn.Net()
    net.opt.num_threads = threads or 1
    net.opt.use_vulkan_compute = False
    net.opt.use_bf16_storage = False
    for name in ('fp16_packed', 'fp16_storage', 'fp16_arithmetic'):
        setattr(net.opt, f'use_{name}', half)
    if net.load_param(str(path)) or net.load_model(str(path.with_suffix('.bin'))):
        raise UserError(f'ncnn cannot read {path} and its .bin')
    names = tuple(net.output_names())
    shape = shape_of_images(path)

    def run(images: NDArray) -> dict[str, NDArray]:
        check_images(images, (1, 3, *(fixed_size(shape) or images.shape[2:])))
        extractor = net.create_extractor()
        # a Mat borrows the memory of the array; its clone owns its own
        extractor.input(INPUT, ncnn.Mat(np.ascontiguousarray(images[0])).clone())
        outputs = {}
        for name in names:
            status, value = extractor.extract(name)
            if status:
                raise UserError(f'ncnn cannot compute {name} of {path}: its status is {status}')
            outputs[name] = np.array(value)[None]
        return outputs

    return Session(shape, names, read_json(path.with_suffix('.json')), run)


def shape_of_images(path: Path) -> tuple[Any, ...]:
    """The shape of the images of an ncnn file; sides that it does not give are None."""
    layers = (line.split() for line in path.read_text().splitlines()[2:])
    options = next((words[4:] for words in layers if words[:1] == ['Input']), [])
    given = dict(option.split('=') for option in options if '=' in option)
    sides = (int(given.get(key, 0)) or None for key in ('1', '0'))  # height, width
    return 1, 3, *sides
