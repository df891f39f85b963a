"""Contact sheets show the model's inputs: pixels, boxes, masks and label maps."""

import cv2
import numpy as np
import pytest
import torch
from mmengine.registry import MODELS

from mmeffvit.analysis.browse import (
    SIDE,
    BrowseOptions,
    as_original,
    browse,
    picture_of,
    to_picture,
    with_original,
)
from mmeffvit.config.build import isolated
from mmeffvit.data.shapes import CLASSES
from mmeffvit.errors import UserError
from tests.conftest import ROOT

SHAPES = str(ROOT / 'configs' / 'maskrcnn_swiftformer_xs_shapes.py')
ADE = str(ROOT / 'configs' / 'pspnet_mobilevitv2_050_ade20k.py')
MOSAIC = str(ROOT / 'configs' / 'rtmdet_swiftformer_xs.py')


def draw(
    config: str, data: object, out: object, settings: dict | None = None, **options: object
) -> list[np.ndarray]:
    settings = {'data_root': f'{data}/', **(settings or {})}
    paths = browse(config, BrowseOptions(out=out, cfg_options=settings, **options))
    return [cv2.imread(str(path)) for path in paths]


@pytest.mark.parametrize(
    ('kind', 'mean', 'std'),
    [
        ('mmdet.DetDataPreprocessor', [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]),
        ('mmseg.SegDataPreProcessor', [0, 0, 0], [255, 255, 255]),
    ],
)
def test_pixels_are_those_of_the_image(kind, mean, std):
    pixels = torch.randint(0, 256, (3, 32, 48), dtype=torch.uint8)  # BGR
    for swapped in (True, False):
        with isolated(kind.split('.')[0]):
            preprocessor = MODELS.build(dict(type=kind, mean=mean, std=std, bgr_to_rgb=swapped))
            data = preprocessor(dict(inputs=[pixels], data_samples=None))
        picture = to_picture(data['inputs'][0], preprocessor)
        assert np.array_equal(picture, pixels.permute(1, 2, 0).numpy()[..., ::-1])


def test_a_sheet_repeats_with_its_seed(shapes, tmp_path):
    (first,) = draw(SHAPES, shapes, tmp_path / '1', number=2, seed=3)
    (again,) = draw(SHAPES, shapes, tmp_path / '2', number=2, seed=3)
    (other,) = draw(SHAPES, shapes, tmp_path / '3', number=2, seed=4)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_label_maps_are_next_to_their_images(ade_shapes, tmp_path):
    (sheet,) = draw(ADE, ade_shapes, tmp_path, number=1, original=True)
    colors = np.unique(sheet.reshape(-1, 3), axis=0)
    assert len(colors) > 1000  # the noise of an image has many colors, a label map few
    assert sheet.shape[1] >= 4 * SIDE  # two columns of pairs


def test_mosaics_come_from_several_images(shapes, tmp_path):
    classes = {'train_dataloader.dataset.metainfo': dict(classes=CLASSES)}
    (sheet,) = draw(MOSAIC, shapes, tmp_path, classes, number=1)
    assert (tmp_path / 'rtmdet_swiftformer_xs_train.png').is_file()
    assert sheet.shape[0] > SIDE


@pytest.mark.parametrize('padding', [0, 32])
def test_boxes_of_a_test_pipeline_are_on_their_objects(padding):
    """Test annotations are in pixels of the original image, here twice the size of the input."""
    from mmdet.structures import DetDataSample
    from mmdet.visualization import DetLocalVisualizer
    from mmengine.structures import InstanceData

    image = np.zeros((64 + padding, 96, 3), np.uint8)
    image[16:32, 24:48] = 255  # the object, in input pixels
    meta = dict(img_shape=image.shape[:2], ori_shape=(128, 192))  # with the padding of `Pad`
    # of an image that was stretched without a `Pad`, it would cut off a part
    meta |= dict(scale_factor=(0.5, 0.5) if padding else (0.4, 0.4))
    sample = DetDataSample(metainfo=meta)
    sample.gt_instances = InstanceData(
        bboxes=torch.tensor([[48.0, 32.0, 96.0, 64.0]]), labels=torch.tensor([0])
    )
    visualizer = DetLocalVisualizer(name='boxes', line_width=2, bbox_color=(255, 0, 0))
    visualizer.dataset_meta = dict(classes=('thing',), palette=[(255, 0, 0)])
    image = as_original(image, sample, padded=bool(padding))
    picture = picture_of(image, sample, visualizer, original=False).astype(int)
    red = picture[..., 0] - picture[..., 1] > 100
    rows, columns = np.nonzero(red)
    factor = SIDE / 96
    assert abs(columns.min() - 24 * factor) < 5
    assert abs(columns.max() - 48 * factor) < 5
    assert abs(rows.max() - 32 * factor) < 5
    assert picture.shape[:2] == (round(64 * factor), SIDE)


def test_the_original_is_on_the_left(shapes):
    path = str(shapes / 'train2017' / '000000.png')
    pair = with_original(np.zeros((SIDE, 100, 3), np.uint8), path)
    assert pair.shape == (SIDE, SIDE + 6 + 100, 3)
    assert not pair[:, -100:].any()


def test_pixels_that_a_pipeline_normalizes_are_reported(shapes, tmp_path):
    pipeline = [
        dict(type='LoadImageFromFile'),
        dict(type='Normalize', mean=[0.0] * 3, std=[1.0] * 3),
    ]
    with pytest.raises(UserError, match='normalizes images in its pipeline'):
        draw(SHAPES, shapes, tmp_path, {'train_dataloader.dataset.pipeline': pipeline})


def test_a_loader_without_a_batch_is_reported(shapes, tmp_path):
    short = {'train_dataloader.dataset.indices': 1, 'train_dataloader.drop_last': True}
    short |= {'train_dataloader.batch_size': 2, 'train_dataloader.batch_sampler': None}
    with pytest.raises(UserError, match='train_dataloader'):
        draw(SHAPES, shapes, tmp_path, short, number=2)
