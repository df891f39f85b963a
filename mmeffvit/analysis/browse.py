"""Contact sheets of the samples that a config's pipeline feeds to its model."""

import time
import warnings
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, VISUALIZERS
from mmengine.runner import Runner, set_random_seed
from mmengine.structures import BaseDataElement
from mmengine.visualization import Visualizer
from torch import Tensor, nn

from mmeffvit.config.build import isolated, own_model_config
from mmeffvit.config.datasets import datasets_in, name_of, settings_of
from mmeffvit.config.load import open_config
from mmeffvit.errors import UserError
from mmeffvit.train.checks.data import check_data
from mmeffvit.train.checks.run import check_batches
from mmeffvit.train.engine.user_errors import building, name_unreadable
from mmeffvit.utils.images import read_image, write_image
from mmeffvit.utils.messages import logger
from mmeffvit.utils.modules import normalization
from mmeffvit.utils.palette import with_palette
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import listed, without_formulas

from .contact_sheet import GAP, montage, scale_sample

VISUALIZER = {'mmdet': 'DetLocalVisualizer', 'mmseg': 'SegLocalVisualizer'}
OPACITY = 0.6  # of label maps over the image
PER_SHEET = 12
COLUMNS = 3
SIDE = 420  # pixels of the longer side of an image on the sheet
WARM_UP = 8  # samples to fill the cache of transforms that mix in cached images


@dataclass
class BrowseOptions:
    """Options of a contact sheet."""

    out: Path  # folder for the sheets
    split: str = 'train'  # or 'val' or 'test'
    number: int = PER_SHEET  # of samples
    seed: int = 0  # of the order and the augmentation
    original: bool = False  # show the original image to the left of each sample
    cfg_options: Mapping[str, Any] = field(default_factory=dict)


def browse(config_path: str, options: BrowseOptions) -> list[Path]:
    """Draw the output of the data loader and the data preprocessor.

    Images are cropped, padded, resized and mixed for training; normalization is undone. Padding
    is zero after normalization, so it has the mean color. Returns the sheets.

    Raises:
        UserError: If the config, its data or an option cannot be used.
    """
    if options.number < 1:
        raise UserError(f'--num-images is {options.number}; give 1 or more')
    config = open_config(config_path, options.cfg_options)
    if not config.get(f'{options.split}_dataloader'):
        raise UserError(f'{config_path} has no {options.split}_dataloader')
    check_data(config, (options.split,))
    with isolated(config.default_scope):
        images = draw_samples(config, options)
        title = describe(config, options)
        logger.info(title)
        return write_sheets(list(images), Path(config_path).stem, title, options)


def draw_samples(config: Config, options: BrowseOptions) -> Iterator[np.ndarray]:
    """The drawn samples: (H, W, 3) uint8 RGB each."""
    settings = deepcopy(dict(config[f'{options.split}_dataloader']))
    settings.update(num_workers=0, persistent_workers=False)
    settings.pop('prefetch_factor', None)
    settings['batch_size'] = min(settings.get('batch_size', 1), options.number)
    if any(settings_of(settings, 'Normalize')):
        raise UserError(
            f'{config.filename} normalizes images in its pipeline: let the data preprocessor do it'
        )
    with building(config), quiet():
        loader = Runner.build_dataloader(settings, seed=options.seed)
    check_batches(loader, options.split)
    name_unreadable(loader.dataset)
    visualizer = build_visualizer(config, loader.dataset.metainfo)
    preprocessor = MODELS.build(own_model_config(config).data_preprocessor)
    set_random_seed(options.seed)
    mixes = 'max_cached_images' in str(settings)
    skipped = WARM_UP if mixes and options.split == 'train' else 0
    late = options.split != 'train' and reads_annotations_last(settings)
    padded = any(settings_of(settings, 'Pad'))
    samples = model_inputs(loader, preprocessor, training=options.split == 'train')
    for image, sample in islice(samples, skipped, skipped + options.number):
        if late:
            image = as_original(image, sample, padded=padded)
        yield picture_of(image, sample, visualizer, original=options.original)


def reads_annotations_last(settings: Mapping[str, Any]) -> bool:
    """Whether annotations are in pixels of the original image, which testing needs."""
    dataset = next(datasets_in(settings['dataset']))
    names = [name_of(step) for step in dataset.get('pipeline', ())]
    resized = [i for i, name in enumerate(names) if 'Resize' in name]
    return bool(resized and 'LoadAnnotations' in names[resized[0] :])


def model_inputs(
    loader: torch.utils.data.DataLoader, preprocessor: nn.Module, *, training: bool
) -> Iterator[tuple[np.ndarray, BaseDataElement]]:
    """Endless outputs of the preprocessor: (H, W, 3) uint8 RGB images with their samples."""
    while True:
        for batch in loader:
            if isinstance(batch['inputs'], dict):
                raise UserError(
                    f'the data has the branches {listed(batch["inputs"])} of a semi-supervised '
                    'training, which are not drawn: give --split val'
                )
            data = preprocessor(batch, training)
            for image, sample in zip(data['inputs'], data['data_samples'], strict=True):
                yield to_picture(image, preprocessor), sample


def to_picture(image: Tensor, preprocessor: nn.Module) -> np.ndarray:
    """Undo normalization: (3, H, W) float -> (H, W, 3) uint8 RGB."""
    mean, std, is_rgb = normalization(preprocessor)
    pixels = (image * std + mean).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
    return np.ascontiguousarray(pixels if is_rgb else pixels[..., ::-1])


def picture_of(
    image: np.ndarray, sample: BaseDataElement, visualizer: Visualizer, *, original: bool
) -> np.ndarray:
    """Draw the annotations into an image, (H, W, 3) uint8 RGB, resized for the sheet.

    ``original`` shows the original image to the left.
    """
    image, factor = resized(image)
    scale_sample(sample, factor, image.shape[:2])
    with warnings.catch_warnings(), without_formulas():
        warnings.filterwarnings('ignore', message='.*out of bounds')
        visualizer.add_datasample('', image, sample, draw_pred=False)
    drawn = visualizer.get_image()
    return with_original(drawn, sample.img_path) if original else drawn


def as_original(image: np.ndarray, sample: BaseDataElement, *, padded: bool) -> np.ndarray:
    """An input image without its padding, resized to the original, which annotations are of."""
    height, width = sample.img_shape[:2]
    if padded:  # ``Pad`` adds it to img_shape
        across, down = sample.scale_factor
        height = min(height, round(sample.ori_shape[0] * down))
        width = min(width, round(sample.ori_shape[1] * across))
    return cv2.resize(image[:height, :width], tuple(sample.ori_shape[1::-1]))


def resized(image: np.ndarray) -> tuple[np.ndarray, float]:
    """The image resized for the sheet, and the scale factor."""
    factor = SIDE / max(image.shape[:2])
    return cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA), factor


def with_original(drawn: np.ndarray, path: str) -> np.ndarray:
    image, _ = resized(read_image(path)[..., ::-1])
    height = max(image.shape[0], drawn.shape[0])
    pair = [
        np.pad(part, ((0, height - part.shape[0]), (0, 0), (0, 0)), constant_values=255)
        for part in (image, np.full((1, GAP, 3), 255, np.uint8), drawn)
    ]
    return np.concatenate(pair, axis=1)


def describe(config: Config, options: BrowseOptions) -> str:
    """The title of a sheet: config, split, seed and batch augmentations."""
    title = f'{Path(config.filename).stem}, {options.split}, seed {options.seed}'
    augments = own_model_config(config).data_preprocessor.get('batch_augments') or ()
    if augments and options.split == 'train':
        title += ', batches by ' + ', '.join(str(augment['type']) for augment in augments)
    return title + (', left: original' if options.original else '')


def write_sheets(
    images: list[np.ndarray], name: str, title: str, options: BrowseOptions
) -> list[Path]:
    columns = COLUMNS - 1 if options.original else COLUMNS
    sheets = range(0, len(images), PER_SHEET)
    paths = []
    for number, start in enumerate(sheets, 1):
        suffix = f'_{number}' if len(sheets) > 1 else ''
        paths.append(options.out / f'{name}_{options.split}{suffix}.png')
        sheet = montage(images[start : start + PER_SHEET], columns, title)
        write_image(paths[-1], cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR))
        logger.info(str(paths[-1]))
    return paths


def build_visualizer(config: Config, meta: Mapping[str, Any]) -> Visualizer:
    """The config's visualizer, or the default one, without backends that write files."""
    scope = config.default_scope
    settings = dict(config.get('visualizer') or dict(type=f'{scope}.{VISUALIZER[scope]}'))
    # visualizers are cached by name, with their settings
    settings.update(name=f'browse_{time.time_ns()}', vis_backends=None, save_dir=None)
    if scope == 'mmseg':
        settings.setdefault('alpha', OPACITY)
    visualizer = VISUALIZERS.build(settings)
    visualizer.dataset_meta = with_palette(meta)
    return visualizer
