"""The data settings of a config: datasets, pipelines, image sizes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS, Registry

from mmeffvit.errors import UserError

from .build import explain_error, isolated
from .values import dicts_in

SPLITS = ('train', 'val', 'test')  # whose loaders a config has
ANNOTATIONS = re.compile(r'Load\w*Annotation')


def datasets_in(dataset: Any) -> Iterator[Mapping]:
    """The datasets inside wrappers such as RepeatDataset and ConcatDataset."""
    if isinstance(dataset, Mapping):
        inner = dataset.get('dataset') or dataset.get('datasets')
        if inner is None:
            yield dataset
        else:
            yield from datasets_in(inner)
    elif isinstance(dataset, list | tuple):
        for item in dataset:
            yield from datasets_in(item)


def datasets_of(config: Config | Mapping[str, Any], split: str) -> list[Mapping]:
    """The datasets of the loader of 'train', 'val' or 'test'."""
    return list(datasets_in((config.get(f'{split}_dataloader') or {}).get('dataset')))


def evaluated_split(config: Config) -> str:
    """The split that a config of a dataset tests, which may have no test images."""
    return Path(datasets_of(config, 'test')[0].get('ann_file', 'test')).stem


def eval_dataset(config: Config) -> Mapping[str, Any]:
    """The first test dataset of the config, else the first validation one; empty if none."""
    split = 'test' if config.get('test_dataloader') else 'val'
    return next(iter(datasets_of(config, split)), {})


def image_pipeline(config: Config) -> list[Mapping[str, Any]]:
    """The settings of the test pipeline without transforms that load annotations."""
    steps = eval_dataset(config).get('pipeline') or ()
    return [step for step in steps if not ANNOTATIONS.match(name_of(step))]


def build_unread(settings: Mapping[str, Any]) -> BaseDataset:
    """Build a dataset with its paths and classes, without loading annotations.

    Its files may be missing.

    Raises:
        UserError: If it is not registered, or an argument is invalid.
    """
    config = {**deepcopy(dict(settings)), 'pipeline': [], 'lazy_init': True}
    scope = config.pop('_scope_', None)  # mmengine adds it to what `mmdet::...` configs define
    cls = class_of(config, scope)
    dataset = None
    try:
        if cls is None:
            return DATASETS.build({**config, '_scope_': scope})  # names unknown types
        dataset = cls.__new__(cls)
        dataset.__init__(**{key: value for key, value in config.items() if key != 'type'})
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        # at their end, constructors of mmseg's own datasets assert that their files exist
        if not (isinstance(error, AssertionError) and hasattr(dataset, '_metainfo')):
            why = explain_error(error, settings)
            raise UserError(f'data ({name_of(settings)}): {why}') from error
    return dataset


def class_of(settings: Mapping[str, Any], scope: str | None, registry: Registry = DATASETS) -> Any:
    """The class of the config of a dataset, or of another registry; None if not registered."""
    cls = settings.get('type')
    if isinstance(cls, str):
        try:
            with registry.switch_scope_and_registry(scope) as scoped:
                return scoped.get(cls)
        except (ImportError, KeyError):
            return None
    return cls


def take_classes(
    config: Config, classes: Sequence[str], palette: Sequence[Sequence[int]] = ()
) -> None:
    """Set the classes of every dataset of a config, in place, if they differ.

    Label maps contain the indices of these classes.
    """
    with isolated(config.default_scope):
        known = build_unread(eval_dataset(config)).metainfo.get('classes') or ()
    if tuple(known) == tuple(classes):
        return
    meta: dict[str, Any] = dict(classes=tuple(classes))
    if len(palette) == len(classes):
        meta['palette'] = [tuple(color) for color in palette]
    is_segmentor = config.default_scope == 'mmseg'
    for split in SPLITS:
        for dataset in datasets_of(config, split):
            dataset['metainfo'] = meta
            if is_segmentor:
                dataset['type'] = 'BaseSegDataset'  # ADE20K's would reject other names
    for key in config if is_segmentor else ():
        if key.endswith(('_dataloader', '_pipeline')):
            drop_reduction(config[key])


def drop_reduction(pipeline: Any) -> None:
    """Make pipelines read label maps unchanged, in place: ADE20K's start at 1."""
    for _, settings in dicts_in(pipeline):
        settings.pop('reduce_zero_label', None)


def limit_tests(config: Config, max_images: int | None) -> None:
    """Use at most so many images of each test dataset."""
    if max_images is not None:
        for dataset in datasets_of(config, 'test'):
            dataset['indices'] = max_images


def image_folders(config: Config) -> list[Path]:
    """The folders of the config's test data, then of its validation data."""
    folders = []
    for settings in (*datasets_of(config, 'test'), *datasets_of(config, 'val')):
        prefixes = prefixes_of(settings)
        folder = prefixes.get('img') or prefixes.get('img_path') or ''
        folders.append(Path(settings.get('data_root') or '', folder))
    return folders


def prefixes_of(dataset: Mapping[str, Any]) -> Mapping[str, Any]:
    """The folders of a dataset by kind; mmpretrain takes the images' alone."""
    given = dataset.get('data_prefix') or {}
    return dict(img_path=given) if isinstance(given, str) else given


def settings_of(value: Any, type_name: str) -> Iterator[dict]:
    """All configs of a type anywhere in ``value``, such as a transform in all pipelines."""
    return (found for _, found in dicts_in(value) if name_of(found) == type_name)


def mentions(value: Any, flag: str) -> bool:
    """Whether ``flag`` is true anywhere in a config."""
    return any(found.get(flag) for _, found in dicts_in(value))


def name_of(settings: Mapping[str, Any]) -> str:
    """The name of the type, which may be a class, without its scope."""
    kind = settings.get('type')
    return getattr(kind, '__name__', str(kind)).split('.')[-1]


def input_multiples(config: Config) -> tuple[int, ...]:
    """Divisors, in pixels, of the sides of the model's training images; a fixed size is its own.

    A wrapper of the dataset may have its own pipeline.
    """
    preprocessor = preprocessor_of(config)
    if preprocessor.get('size') is not None:
        return tuple(preprocessor['size'])
    divisor = preprocessor.get('pad_size_divisor') or preprocessor.get('size_divisor') or 1
    outer = (config.get('train_dataloader') or {}).get('dataset') or {}
    inner = next(datasets_in(outer), {})
    multiples: tuple[int, ...] = (1,)
    for settings in (inner,) if inner is outer else (inner, outer):
        for step in settings.get('pipeline') or ():
            multiples = multiples_after(step, multiples)
    return tuple(m if m % divisor == 0 else divisor for m in multiples)


def multiples_after(step: Mapping[str, Any], before: tuple[int, ...]) -> tuple[int, ...]:
    """Divisors of the sides of images after a transform, in pixels."""
    name = name_of(step)
    if name == 'Pad':
        return tuple(step.get('size') or ()) or (step.get('size_divisor') or 1,)
    if name in ('FloorToMultiple', 'ResizeToMultiple'):
        return (step.get('divisor') or step.get('size_divisor') or 32,)
    if name == 'Resize' and not step.get('keep_ratio') and step.get('scale') is not None:
        scale = step['scale']
        return tuple(scale) if isinstance(scale, list | tuple) else (scale,)
    resizes = any(word in name for word in ('Resize', 'Crop', 'Mosaic')) or 'transforms' in step
    return (1,) if resizes else before


def preprocessor_of(config: Config) -> Mapping[str, Any]:
    """The settings of the model's data preprocessor."""
    model = config.model.get('detector', config.model)
    return model.get('data_preprocessor') or config.get('data_preprocessor') or {}


def eval_shape(config: Config) -> tuple[int, int] | None:
    """Height and width in pixels of the config's test images, if it gives them."""
    preprocessor = preprocessor_of(config)
    if preprocessor.get('size') is not None:
        return tuple(preprocessor['size'])
    if config.default_scope == 'mmpretrain':
        crop = next(settings_of(config.get('test_dataloader'), 'CenterCrop'), None)
        size = crop and crop['crop_size']  # a side, or width and height
        return (size,) * 2 if isinstance(size, int) else size and tuple(size[::-1])
    if config.default_scope == 'mmdet':
        for resize in settings_of(config.get('test_dataloader'), 'Resize'):
            if isinstance(resize.get('scale'), list | tuple):
                width, height = resize['scale']
                return height, width
    return None


def meta_of(shape: tuple[int, int]) -> dict[str, Any]:
    """The metainfo of an image of this height and width that was not resized."""
    return dict(
        img_shape=shape, ori_shape=shape, pad_shape=shape, batch_input_shape=shape,
        scale_factor=(1.0, 1.0), flip=False, img_id=0, img_path='noise.png',
    )  # fmt: skip
