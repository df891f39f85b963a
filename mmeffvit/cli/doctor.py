"""Print versions, which packages work, and the path of the configs."""

import os
import platform
from argparse import ArgumentParser
from importlib import import_module

import cv2
import mmengine
import numpy
import torch

import mmeffvit
from mmeffvit.errors import UserError
from mmeffvit.utils.machine import ISA, amx_works, reports_amx
from mmeffvit.utils.optional import require

from .arguments import new_parser


def make_parser() -> ArgumentParser:
    return new_parser(__doc__, 'doctor')


def run() -> None:
    amx = 'not reported by the CPU'
    if reports_amx():
        trapping = 'traps, though the CPU reports it: not used, by '
        amx = 'works' if amx_works() else f'{trapping}{ISA}={os.environ[ISA]}'
    rows = {
        'python': f'{platform.python_version()} on {platform.platform()}',
        'mmeffvit': mmeffvit.__version__,
        'torch': f'{torch.__version__}, {torch.get_num_threads()} threads',
        'torchvision': state('torchvision'),
        'amx': amx,
        'mmengine': mmengine.__version__,
        'numpy': numpy.__version__,
        'opencv': cv2.__version__,
    }
    rows |= {package: state(package) for package in ('mmcv', 'mmdet', 'mmseg', 'mmpretrain')}
    rows['configs'] = mmeffvit.resource_dir('configs')
    for name, value in rows.items():
        print(f'{name:<12}{value}')


def state(package: str) -> str:
    """The version of a package if it works here, else the fix."""
    try:
        require('mmcv.ops' if package == 'mmcv' else f'{package}.models')
    except UserError as error:
        return str(error)
    return f'{import_module(package).__version__}, works'
