"""What fine-tuning takes from a config of ours: sizes, rates, pipelines, places of class counts."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from mmengine.config import Config

from mmeffvit.config.datasets import datasets_of, eval_shape, mentions, name_of, settings_of
from mmeffvit.config.load import find_config, load_config, own_configs
from mmeffvit.errors import UserError

SIZES = ('scale', 'scales', 'img_scale', 'crop_size', 'size')  # arguments of transforms in pixels


@dataclass(frozen=True)
class Base:
    """A config to start from.

    Args:
        name: Of the model.
        config: Its config.
    """

    name: str
    config: Config

    @classmethod
    def of(cls, name: str) -> 'Base':
        """Read the config of a model.

        Raises:
            UserError: If there is none of that name, or it is of a classifier.
        """
        config = load_config(find_config(name))
        if name not in own_configs():
            raise UserError(f'--model is {name!r}, a file; give the name of one of our configs')
        if config.get('default_scope') == 'mmpretrain':
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
    def train_pipeline(self) -> list[dict]:
        return plain(datasets_of(self.config, 'train')[0].get('pipeline'))

    @property
    def test_pipeline(self) -> list[dict]:
        return plain(datasets_of(self.config, 'val')[0].get('pipeline'))

    @property
    def last_pipeline(self) -> list[dict] | None:
        """What the last epochs are trained with where the first have mosaics."""
        hooks = self.config.get('custom_hooks') or ()
        found = (hook for hook in hooks if name_of(hook) == 'PipelineSwitchHook')
        return next((plain(hook['switch_pipeline']) for hook in found), None)

    @property
    def image_size(self) -> int:
        """The side, in pixels, that everything else in the pipelines is a multiple of.

        Of a segmentor the crop, of a detector the shorter side of test images.
        """
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
        """The address of the weights that the backbone starts from."""
        return (self.config.model.backbone.get('init_cfg') or {}).get('checkpoint')


def plain(value: Any) -> Any:
    """The same in Python's own dicts and lists."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return deepcopy(value)


def scaled(pipeline: Any, factor: float, key: str = '') -> Any:
    """A pipeline whose sizes in pixels are multiplied by ``factor``."""
    if isinstance(pipeline, dict):
        return {name: scaled(item, factor, name) for name, item in pipeline.items()}
    if isinstance(pipeline, list | tuple):
        return type(pipeline)(scaled(item, factor, key) for item in pipeline)
    if key in SIZES and type(pipeline) is int:
        return max(1, round(pipeline * factor))
    return pipeline


def class_counts(settings: Any, value: Any) -> dict:
    """The nested dicts of a model's config with ``num_classes``, each set to ``value``."""
    found = {}
    for key, item in settings.items() if isinstance(settings, Mapping) else ():
        if key == 'num_classes':
            found[key] = value
        elif inner := class_counts(item, value):
            found[key] = inner
    return found
