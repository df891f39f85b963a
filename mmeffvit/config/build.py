"""Build the model of a config in isolation: without loading weights or changing global state."""

import logging
import random
import re
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from typing import Any

import mmengine.registry
import numpy as np
import torch
from mmengine.config import Config, ConfigDict
from mmengine.logging import MessageHub, MMLogger
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import MODELS, DefaultScope, Registry
from torch import nn

from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.pretrained import is_pretrained, split_pretrained
from mmeffvit.utils.quiet import replaced
from mmeffvit.utils.text import did_you_mean, first_line, listed

from .values import dicts_in

SEED = 0
UNREGISTERED = re.compile(r'(\S+) is not in the (\S+?)::(.+?) registry')
WEIGHT_KEYS = ('pretrained', 'teacher_ckpt')  # arguments of models that name a checkpoint
TEACHER = re.compile(r'(^|\.)teacher')  # in a dotted key
OPENMMLAB = r'mm(engine|cv|det|seg|pretrain)\b'
PER_PROCESS = (MMLogger, MessageHub, DefaultScope)  # mmengine's state of the current run


@contextmanager
def isolated(scope: str) -> Iterator[None]:
    """Run code without side effects on a run in the same process.

    Random states, the current logger, message hub and default scope are restored afterwards. Inside
    the context nothing is logged and the process group is hidden: losses that average over all
    processes would wait for the other processes.
    """
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with ExitStack() as undo:
        undo.callback(random.setstate, random.getstate())
        undo.callback(np.random.set_state, np.random.get_state())
        for cls in PER_PROCESS:
            undo.enter_context(replaced(cls, '_instance_dict', OrderedDict()))
        MMLogger.get_instance('isolated').setLevel('CRITICAL')
        DefaultScope.get_instance('isolated', scope_name=scope)
        progress = dict(epoch=0, iter=0, max_epochs=1, max_iters=1)  # some losses read it
        MessageHub.get_instance('isolated').update_info_dict(progress)
        undo.enter_context(torch.random.fork_rng(devices))
        undo.enter_context(warnings.catch_warnings())
        undo.enter_context(replaced(torch.distributed, 'is_initialized', lambda: False))
        random.seed(SEED)
        np.random.seed(SEED)
        torch.default_generator.manual_seed(SEED)  # torch.manual_seed would seed accelerators
        warnings.simplefilter('ignore')
        yield


@contextmanager
def silenced() -> Iterator[None]:
    """Drop warnings and logs below errors of OpenMMLab, such as a line per parameter."""
    logger = MMLogger.get_current_instance()

    def is_error(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    logger.addFilter(is_error)  # of this call alone: models may be built in several threads
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings('ignore', module=OPENMMLAB)
            yield
    finally:
        logger.removeFilter(is_error)


def own_model_config(config: Config) -> ConfigDict:
    """A copy of the model's config without checkpoints, with its data preprocessor.

    For a wrapper around a detector (semi-supervised training, tracking), the detector's.

    Raises:
        UserError: If the config has no model.
    """
    model = deepcopy(config.get('model'))
    if not model:
        raise UserError(f'{config.filename} has no model')
    if 'backbone' not in model and 'detector' in model:
        model = model.detector
    if 'data_preprocessor' in config:
        model.setdefault('data_preprocessor', deepcopy(config.data_preprocessor))
    without_weights(model)
    return model


def without_weights(value: Any, *, teachers: bool = True) -> None:
    """Remove every pretrained checkpoint from ``value``, in place; optionally keep a teacher's."""
    for place, settings in dicts_in(value):
        for key, item in settings.items():
            if not teachers and TEACHER.search(f'{place}.{key}'):
                continue
            if key in WEIGHT_KEYS:
                settings[key] = None
            elif key == 'init_cfg' and is_pretrained(item):
                settings[key] = split_pretrained(item)[1] or None


def build_model(model: ConfigDict) -> nn.Module:
    """Build a model, with ``SyncBatchNorm`` replaced by plain batch norm.

    Raises:
        UserError: If a name is not registered or an argument is invalid.
    """
    try:
        return revert_sync_batchnorm(MODELS.build(deepcopy(model)))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f'the model cannot be built: {explain_error(error, dict(model=model))}'
        ) from error


def explain_error(error: Exception, settings: Mapping[str, Any]) -> str:
    """Why something could not be built from a config, with the fix for frequent causes.

    ``settings`` are the config, or its model as ``dict(model=...)``.
    """
    line = first_line(error)
    if found := UNREGISTERED.search(line):
        name, scope, kind = found.groups()
        choices = did_you_mean(name.rpartition('.')[2], registered(kind)) or 'no name is similar.'
        return (
            f'{scope} has no {kind} of type {name!r}; {choices} Correct it, or import the module '
            'that registers it with custom_imports'
        )
    argument = re.search(r"unexpected keyword argument '(\w+)'", line)
    places = [p for p, d in dicts_in(settings) if argument and argument[1] in d and 'type' in d]
    if places and argument[1] == 'pretrained':
        return (
            f'{line}, set in {listed(places)}: set pretrained=None there, and weights with '
            "init_cfg=dict(type='Pretrained', checkpoint=...) of the backbone"
        )
    if places:
        return (
            f'{line}, set in {listed(places)}. If it comes from a config that this one '
            'inherits from, replace the whole dict: '
            f'{places[0].split(".")[-1]}=dict(_delete_=True, ...)'
        )
    plain = isinstance(error, KeyError | TypeError | ValueError) and ' ' in line
    return line if plain else f'{type(error).__name__}: {line}'


def registered(kind: str) -> list[str]:
    """All names registered for a kind, including mmdet's and mmseg's."""
    roots = [r for r in vars(mmengine.registry).values() if isinstance(r, Registry)]
    roots = [root for root in roots if root.name == kind]
    return sorted({
        name for root in roots for registry in (root, *root.children.values())
        for name in registry.module_dict
    })  # fmt: skip
