"""Run one training step on a small random batch, and record what happens in each module."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from mmengine.config import Config, ConfigDict
from torch import nn

from mmeffvit.config.build import build_model, own_model_config
from mmeffvit.config.values import dicts_in
from mmeffvit.models.heads import class_counts
from mmeffvit.utils.modules import forwards
from mmeffvit.utils.schema import is_dict, is_list

from .sample import maps_in, own_batches

# pixels: two cells at the coarsest usual stride
SIDES = {'mmdet': 256, 'mmseg': 128, 'mmpretrain': 128}
MAX_OWN_SIDE = 512  # pixels: the largest fixed size that is tried
MAX_SAMPLED = 64  # sampled candidates per image
MAX_DEPTH = 3  # depth of the recorded modules


@dataclass
class Step:
    """A model after one training step, which may have failed."""

    scope: str  # 'mmdet', 'mmseg' or 'mmpretrain'
    settings: ConfigDict  # of the model
    place: str = 'model'  # its key in the config, ``model.detector`` of a wrapper's
    model: nn.Module | None = None  # None if it could not be built
    frozen: list[str] = field(default_factory=list)  # parameters that do not require a gradient
    image: tuple[int, int] = (0, 0)  # height and width of the backbone's input, in pixels
    # shapes of the input and output maps of each module, by its name
    received: dict[str, list[torch.Size]] = field(default_factory=dict)
    returned: dict[str, list[torch.Size]] = field(default_factory=dict)
    failed_in: str | None = None  # name of the innermost recorded module that failed
    error: Exception | None = None  # that stopped the step

    @property
    def backbone(self) -> nn.Module | None:
        return getattr(self.model, 'backbone', None)

    def watched(self) -> Iterator[tuple[str, nn.Module]]:
        """The modules of the model down to ``MAX_DEPTH``, except those inside the backbone."""
        for name, module in self.model.named_modules():
            inside = name.startswith('backbone.') or name.startswith('data_preprocessor')
            if name and not inside and name.count('.') < MAX_DEPTH:
                yield name, module

    def describe(self, name: str) -> str:
        """Name and class of a module, for messages."""
        return f'{name} ({type(self.model.get_submodule(name)).__name__})'

    def settings_at(self, name: str) -> dict[str, Any]:
        """The config of a module, or an empty one.

        A config can describe several modules, one per stage; their indices are ignored then.
        """
        found: Any = self.settings
        for part in name.split('.'):
            if is_list(found):
                found = dict(enumerate(found)).get(int(part)) if part.isdigit() else None
            elif not is_dict(found):
                return {}
            elif not part.isdigit():
                found = found.get(part)
        return found if is_dict(found) else {}


def run_step(config: Config) -> Step:
    """Build the model of ``config`` and train it for a step; errors are in the result.

    Images are small; if the model fails on them, the size in its config is tried, unless it is
    large. Call this inside :func:`mmeffvit.config.build.isolated`.
    """
    step = Step(config.default_scope, own_model_config(config))
    if 'detector' in config.model and 'backbone' not in config.model:
        step.place = 'model.detector'
    reduce_cost(step.settings)
    own, sample = own_batches(config)
    side = min(own or SIDES[step.scope], SIDES[step.scope])
    preprocessor = step.settings.get('data_preprocessor') or {}
    if preprocessor.get('size') is not None:
        preprocessor['size'] = (side, side)  # instead of padding to a larger size
    try:
        step.model = build_model(step.settings)
    except Exception as error:  # a config may fail in any way, which is what is checked here
        step.error = error
        return step
    with suppress(Exception):  # some require a checkpoint: torch's default initialization works too
        step.model.init_weights()
    step.frozen = [name for name, p in step.model.named_parameters() if not p.requires_grad]
    with forwards(step.watched(), partial(watching, step)):
        train_once(step, sample, side)
        if step.error is not None and own is not None and side < own <= MAX_OWN_SIDE:
            if hasattr(step.model.data_preprocessor, 'size') and step.scope == 'mmseg':
                step.model.data_preprocessor.size = (own, own)
            train_once(step, sample, own)
    return step


def reduce_cost(settings: Any) -> None:
    """Reduce, in place, what costs time and does not affect the checks."""
    for _, part in dicts_in(settings):
        if 'Sampler' in str(part.get('type')) and isinstance(part.get('num'), int):
            part['num'] = min(part['num'], MAX_SAMPLED)
        if part.get('batch_augments') is not None:
            part['batch_augments'] = None  # they may pad small images to the size of training


def watching(step: Step, name: str, module: nn.Module) -> Callable:
    """The module's ``forward``, which records the maps that go in and out."""
    forward = module.forward

    def watched(*args: Any, **kwargs: Any) -> Any:
        shapes = [x.shape for x in maps_in([*args, *kwargs.values()])]
        step.received.setdefault(name, shapes)
        if name == 'backbone' and shapes:
            step.image = tuple(shapes[0][2:])
        try:
            output = forward(*args, **kwargs)
        except Exception:
            step.failed_in = step.failed_in or name
            raise
        step.returned.setdefault(name, [x.shape for x in maps_in([output])])
        return output

    return watched


def train_once(step: Step, sample: Callable[[int, int], dict], side: int) -> None:
    model = step.model
    model.train()  # the train() of some models returns None
    model.zero_grad(set_to_none=True)
    step.received.clear()
    step.returned.clear()
    step.failed_in = step.error = None
    step.image = (side, side)
    batch = sample(side, min(class_counts(model).values(), default=1))
    try:
        with torch.enable_grad():
            data = model.data_preprocessor(batch, training=True)
            loss, _ = model.parse_losses(model(**data, mode='loss'))
            loss.backward()
    except Exception as error:  # as in run_step
        step.error = error
