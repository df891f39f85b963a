"""What fine-tuning starts from: a config of ours, and weights for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmeffvit.config.datasets import datasets_of, drop_reduction, eval_shape, mentions, settings_of
from mmeffvit.config.load import find_config, load_config, own_configs
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models.checkpoints.pretrained import checkpoint_of
from mmeffvit.models.checkpoints.sources import fetch
from mmeffvit.utils.messages import logger
from mmeffvit.zoo.metafile import read_models

AUTO, NONE = 'auto', 'none'


@dataclass(frozen=True)
class Base:
    """A config of ours to start from."""

    name: str
    config: Config

    @classmethod
    def of(cls, name: str, *, allow_classifiers: bool = False) -> 'Base':
        """Read one of our configs.

        Raises:
            UserError: If there is none of that name, or it is of a classifier.
        """
        config = load_config(find_config(name))
        if name not in own_configs():
            raise UserError(f'--model is {name!r}, a file; give the name of one of our configs')
        if config.get('default_scope') == 'mmpretrain' and not allow_classifiers:
            raise UserError(
                f'{name} is a classifier: docs/imagenet.md has a config for folders of classes'
            )
        return cls(name, config)

    @property
    def is_segmentor(self) -> bool:
        return self.config.default_scope == 'mmseg'

    @property
    def needs_masks(self) -> bool:
        """Whether a detector is trained on instance masks."""
        return mentions(self.train_pipeline, 'with_mask')

    @property
    def metric(self) -> str:
        """The metric that the best checkpoint is chosen by."""
        if self.is_segmentor:
            return 'mIoU'
        return 'coco/segm_mAP' if self.needs_masks else 'coco/bbox_mAP'

    @property
    def settings(self) -> dict[str, Any]:
        """A copy of the config in plain dicts and lists, which reads label maps unchanged."""
        settings = self.config.to_dict()
        drop_reduction(settings)
        return settings

    @property
    def train_pipeline(self) -> list[dict]:
        return datasets_of(self.settings, 'train')[0].get('pipeline')

    @property
    def test_pipeline(self) -> list[dict]:
        return datasets_of(self.settings, 'val')[0].get('pipeline')

    @property
    def last_pipeline(self) -> list[dict] | None:
        """The pipeline of the last epochs, without mosaic."""
        switches = settings_of(self.settings.get('custom_hooks'), 'PipelineSwitchHook')
        return next((hook['switch_pipeline'] for hook in switches), None)

    @property
    def image_size(self) -> int:
        """The reference size in pixels: a segmentor's crop, or the short side of test images."""
        if self.is_segmentor:
            return next(settings_of(self.train_pipeline, 'RandomCrop'))['crop_size'][0]
        shape = eval_shape(self.config)
        if shape is None:
            raise UserError(f'{self.name} resizes test images to no fixed size')
        return min(shape)

    @property
    def batch_size(self) -> int:
        """The batch size that the learning rate is for."""
        scaling = self.config.get('auto_scale_lr') or {}
        return scaling.get('base_batch_size') or self.config.train_dataloader.batch_size

    @property
    def optimizer(self) -> Mapping[str, Any]:
        return self.config.optim_wrapper.optimizer

    @property
    def backbone_weights(self) -> str | None:
        """The URL of the backbone's pretrained weights."""
        return checkpoint_of(self.config.model.backbone.get('init_cfg'))


@dataclass(frozen=True)
class Start:
    """Where the weights come from."""

    what: str  # in words
    checkpoint: str | None = None  # checkpoint of a full model, if any
    keeps_backbone: bool = False  # whether the backbone loads the weights of the base config

    @property
    def is_scratch(self) -> bool:
        return self.checkpoint is None and not self.keeps_backbone


def in_place(name: str) -> str:
    """The absolute path of a file, for configs; a URL or the name of a model is unchanged."""
    return str(Path(name).absolute()) if Path(name).exists() else name


def find_start(base: Base, wanted: str = AUTO) -> Start:
    """The best available weights.

    ``wanted`` is 'auto' for the released model, else the backbone's ImageNet weights, else none,
    with the reason; 'none'; or the path or URL of a checkpoint, which must load.
    """
    if wanted == NONE:
        return Start('random weights (--weights none)')
    if wanted != AUTO:
        fetch(wanted)
        return Start(f'the model in {wanted}', checkpoint=in_place(wanted))
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
    """The URL of the weights that :func:`find_start` tries first."""
    return getattr(read_models().get(base.name), 'weights', None) or base.backbone_weights
