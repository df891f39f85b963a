"""The module that mmengine imports for the scope ``mmeffvit``: the registries, filled.

The library itself imports :mod:`mmeffvit.registries`.
"""

from importlib import import_module

from .registries import (
    DATASETS,
    HOOKS,
    METRICS,
    MODELS,
    OPTIM_WRAPPERS,
    TASK_UTILS,
    TRANSFORMS,
    register_backbone,
)

__all__ = [
    'DATASETS',
    'HOOKS',
    'METRICS',
    'MODELS',
    'OPTIM_WRAPPERS',
    'TASK_UTILS',
    'TRANSFORMS',
    'register_backbone',
]

import_module('mmeffvit.models')  # registers the backbones under their plain names
