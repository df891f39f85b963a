"""``python -m mmeffvit``: versions, whether mmdet and mmseg work, and where the configs are."""

import platform
from importlib import import_module

import cv2
import mmengine
import numpy
import torch

import mmeffvit
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require


def main() -> None:
    rows = {
        'python': f'{platform.python_version()} on {platform.platform()}',
        'mmeffvit': mmeffvit.__version__,
        'torch': f'{torch.__version__}, {torch.get_num_threads()} threads',
        'mmengine': mmengine.__version__,
        'numpy': numpy.__version__,
        'opencv': cv2.__version__,
    }
    rows |= {package: state(package) for package in ('mmcv', 'mmdet', 'mmseg')}
    rows |= {name: mmeffvit.resource_dir(name) for name in ('configs', 'tools')}
    for name, value in rows.items():
        print(f'{name:<12}{value}')


def state(package: str) -> str:
    try:
        require('mmcv.ops' if package == 'mmcv' else package)
    except UserError as error:
        return str(error)
    return f'{import_module(package).__version__}, works'


if __name__ == '__main__':
    main()
