"""What a model starts from: a released model, a backbone's weights, or nothing."""

from dataclasses import dataclass

from mmeffvit.checkpoints.sources import fetch
from mmeffvit.errors import CheckpointError
from mmeffvit.utils.messages import logger
from mmeffvit.zoo.metafile import read_models

from .base import Base

AUTO, NONE = 'auto', 'none'


@dataclass(frozen=True)
class Start:
    """Where the weights come from.

    Args:
        what: In words.
        checkpoint: Of a full model; None without.
        keeps_backbone: The backbone starts from the weights that the base names.
    """

    what: str
    checkpoint: str | None = None
    keeps_backbone: bool = False

    @property
    def is_scratch(self) -> bool:
        return self.checkpoint is None and not self.keeps_backbone


def find_start(base: Base, wanted: str = AUTO) -> Start:
    """The best weights that can be had here.

    Args:
        base: The model.
        wanted: 'auto' for the released model, else the backbone's ImageNet weights, else none, with
            the reason; 'none'; or a checkpoint by path or address.

    Raises:
        mmeffvit.checkpoints.CheckpointError: If a checkpoint was given and cannot be had.
    """
    if wanted == NONE:
        return Start('random weights (--weights none)')
    if wanted != AUTO:
        fetch(wanted)
        return Start(f'the model in {wanted}', checkpoint=wanted)
    released = getattr(read_models().get(base.name), 'weights', None)
    failures = []
    for address, start in (
        (released, Start(f'the released {base.name}', checkpoint=released)),
        (base.backbone_weights, Start('ImageNet weights of the backbone', keeps_backbone=True)),
    ):
        try:
            if address:
                fetch(address)
                return start
        except CheckpointError as error:
            failures.append(str(error))
    logger.warning(
        f'WARNING: no pretrained weights for {base.name}; training from scratch needs many more '
        'images and epochs\n' + '\n'.join(failures or ['none are known'])
    )
    return Start('random weights: no pretrained ones were found')


def known_weights(base: Base) -> str | None:
    """The address of the weights that :func:`find_start` looks for first."""
    return getattr(read_models().get(base.name), 'weights', None) or base.backbone_weights
