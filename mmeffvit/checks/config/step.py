"""Run one training step on a small random batch, and write down what happened where."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from mmengine.config import Config, ConfigDict
from torch import nn

from mmeffvit.checks.classes import class_counts
from mmeffvit.config.build import build_model, own_model_config

from .sample import maps_in, own_side, random_batch, targets_of

SIDES = {'mmdet': 256, 'mmseg': 128}  # pixels: two cells at the coarsest usual stride
MAX_OWN_SIDE = 512  # pixels: the largest image that a model may insist on
MAX_SAMPLED = 64  # candidates per image that a loss takes
MAX_DEPTH = 3  # parts of the name of a module that is watched
NEEDS_ACCELERATOR = re.compile(
    r'device cpu not found|not (implemented|supported|available) (on|for|in).{0,3}cpu'
    r'|not compiled with|no kernel image|requires? (a )?(cuda|gpu)',
    re.IGNORECASE,
)


@dataclass
class Step:
    """A model after one training step, or as far as it came.

    Args:
        scope: 'mmdet' or 'mmseg'.
        settings: The config of the model.

    Attributes:
        model: The model, or None if it could not be built.
        frozen: Names of the parameters that ask for no gradient.
        image: Height and width of the images as they reach the backbone, in pixels.
        arrived: Shapes of the maps that reach a module, by its name.
        left: Shapes of the maps that leave it.
        failed_in: Name of the innermost watched module that failed.
        error: What stopped the step.
    """

    scope: str
    settings: ConfigDict
    model: nn.Module | None = None
    frozen: list[str] = field(default_factory=list)
    image: tuple[int, int] = (0, 0)
    arrived: dict[str, list[torch.Size]] = field(default_factory=dict)
    left: dict[str, list[torch.Size]] = field(default_factory=dict)
    failed_in: str | None = None
    error: Exception | None = None

    @property
    def backbone(self) -> nn.Module | None:
        return getattr(self.model, 'backbone', None)

    @property
    def needs_accelerator(self) -> bool:
        return self.error is not None and bool(NEEDS_ACCELERATOR.search(str(self.error)))

    def watched(self) -> Iterator[tuple[str, nn.Module]]:
        """The parts of the model down to ``MAX_DEPTH``, without the inside of the backbone."""
        for name, module in self.model.named_modules():
            inside = name.startswith('backbone.') or name.startswith('data_preprocessor')
            if name and not inside and name.count('.') < MAX_DEPTH:
                yield name, module

    def called(self, name: str) -> str:
        """How a module is called in a message: its name and its class."""
        return f'{name} ({type(self.model.get_submodule(name)).__name__})'

    def forget(self) -> None:
        """Be ready to run again."""
        self.arrived.clear()
        self.left.clear()
        self.failed_in = self.error = None
        self.model.zero_grad(set_to_none=True)


def run_step(config: Config) -> Step:
    """Build the model of ``config`` and train it for a step; what goes wrong is in the result.

    Images are small; a model that fails on them gets the size that its config names, if it is not
    large. Call it inside :func:`mmeffvit.config.build.isolated`.
    """
    step = Step(config.default_scope, own_model_config(config))
    shorten(step.settings)
    own, sample = own_side(config), partial(random_batch, step.scope, **targets_of(config))
    side = min(own or SIDES[step.scope], SIDES[step.scope])
    try:
        step.model = build_model(fit_size(step.settings, side))
    except Exception as error:  # a config may fail in any way, which is what is asked here
        step.error = error
        return step
    with suppress(Exception):  # some cannot start without a checkpoint: torch's own values do
        step.model.init_weights()
    watch(step)
    step.frozen = [name for name, p in step.model.named_parameters() if not p.requires_grad]
    train_once(step, sample, side)
    if step.error is not None and own is not None and side < own <= MAX_OWN_SIDE:
        step.forget()
        if hasattr(step.model.data_preprocessor, 'size') and step.scope == 'mmseg':
            step.model.data_preprocessor.size = (own, own)
        train_once(step, sample, own)
    return step


def shorten(settings: Any) -> None:
    """Take out, in place, what costs time and decides nothing here."""
    if isinstance(settings, dict):
        if 'Sampler' in str(settings.get('type')) and isinstance(settings.get('num'), int):
            settings['num'] = min(settings['num'], MAX_SAMPLED)
        if settings.get('batch_augments') is not None:
            settings['batch_augments'] = None  # they may pad small images to the size of training
    values = settings.values() if isinstance(settings, dict) else settings
    for value in values:
        if isinstance(value, dict | list | tuple):
            shorten(value)


def fit_size(settings: ConfigDict, side: int) -> ConfigDict:
    """Let a segmentor's preprocessor pad to ``side`` where it pads to a fixed size."""
    preprocessor = settings.get('data_preprocessor') or {}
    if preprocessor.get('size') is not None:
        preprocessor['size'] = (side, side)
    return settings


def watch(step: Step) -> None:
    """Note the maps that enter and leave every watched module.

    Heads of mmseg are run by their ``forward``, which hooks of torch do not see.
    """
    for name, module in step.watched():
        module.forward = _watching(step, name, module.forward)


def _watching(step: Step, name: str, forward: Any) -> Any:
    def watching(*args: Any, **kwargs: Any) -> Any:
        shapes = [x.shape for x in maps_in([*args, *kwargs.values()])]
        step.arrived.setdefault(name, shapes)
        if name == 'backbone' and shapes:
            step.image = tuple(shapes[0][2:])
        try:
            output = forward(*args, **kwargs)
        except Exception:
            step.failed_in = step.failed_in or name
            raise
        step.left.setdefault(name, [x.shape for x in maps_in([output])])
        return output

    return watching


def train_once(step: Step, sample: Callable[[int, int], dict], side: int) -> None:
    model = step.model
    model.train()  # some return nothing
    step.image = (side, side)
    batch = sample(side, min(class_counts(model).values(), default=1))
    try:
        with torch.enable_grad():
            data = model.data_preprocessor(batch, training=True)
            loss, _ = model.parse_losses(model(**data, mode='loss'))
            loss.backward()
    except Exception as error:  # as above
        step.error = error
