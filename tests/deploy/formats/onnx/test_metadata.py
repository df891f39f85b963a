"""Files describe the test pipeline of their config completely, or are not written."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import cv2
import numpy as np
import pytest
from mmcv.transforms import TRANSFORMS as OF_MMCV
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import TRANSFORMS, DefaultScope
from PIL import Image

from mmeffvit.deploy.export import warn_of_sides
from mmeffvit.deploy.graphs.metadata import STAGES, resize_of
from mmeffvit.deploy.runtime.metadata import Metadata
from mmeffvit.deploy.runtime.resizing import prepare, resample, resize
from mmeffvit.errors import UserError
from tests.configs.models import load

HOSTS = ('mmdet', 'mmseg', 'mmpretrain')
LOAD = dict(type='LoadImageFromFile')
GRAY = dict(img=(114.0, 113.0, 112.0))
RESIZE = dict(type='Resize', scale=(61, 40), keep_ratio=True)
EDGE = dict(type='ResizeEdge', scale=73, backend='pillow', interpolation='bicubic')
PIPELINES = {
    'a divisor': ('mmdet', [RESIZE, dict(type='Pad', size_divisor=32, pad_val=7)]),
    'a square': ('mmdet', [RESIZE, dict(type='Pad', pad_to_square=True, pad_val=GRAY)]),
    'both': ('mmdet', [RESIZE, dict(type='Pad', pad_to_square=True, size_divisor=16)]),
    'one float': ('mmdet', [RESIZE, dict(type='Pad', size=(70, 70), pad_val=dict(img=9.0))]),
    'floats': (
        'mmdet',
        [
            dict(type='mmeffvit.FloorToMultiple', divisor=24),
            dict(type='Pad', size_divisor=32, pad_val=dict(img=(1.5, 2.25, 3.0), seg=255)),
        ],
    ),
    'a crop': ('mmpretrain', [dict(type='Resize', scale=(60, 50)), dict(type='CenterCrop',
                                                                       crop_size=32)]),
    'an edge': ('mmpretrain', [EDGE, dict(type='CenterCrop', crop_size=64)]),
    'an oblong crop': ('mmpretrain', [EDGE, dict(type='CenterCrop', crop_size=(64, 48))]),
}  # fmt: skip


def config_of(scope: str, steps: list[dict[str, Any]]) -> Config:
    dataset = dict(type='CocoDataset', pipeline=steps)
    return Config(dict(default_scope=scope, test_dataloader=dict(dataset=dataset)))


def run_steps(scope: str, steps: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
    with DefaultScope.overwrite_default_scope(scope):
        return Compose([TRANSFORMS.build(step) for step in steps])(given)


def steps_of(config_name: str) -> tuple[str, list[dict[str, Any]]]:
    """The scope and the test pipeline of a config of ours, between reading and packing."""
    config = load(config_name)
    steps = config.test_dataloader.dataset.pipeline
    return config.default_scope, [s for s in steps if not s['type'].startswith(('Load', 'Pack'))]


@pytest.mark.parametrize('shape', [(37, 50), (40, 40), (500, 333)])
@pytest.mark.parametrize(
    'name',
    [*PIPELINES, 'retinanet_swiftformer_l1', 'ssdlite_mobilevitv2_050', 'rtmdet_swiftformer_xs',
     'pspnet_mobilevitv2_050_ade20k', 'segformer_swiftformer_xs_ade20k'],
)  # fmt: skip
def test_images_are_resized_padded_and_cropped_as_by_the_transforms(name, shape):
    scope, steps = PIPELINES.get(name) or steps_of(name)
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    expected = run_steps(scope, steps, img=image.copy(), img_shape=shape, ori_shape=shape)
    how = resize_of(config_of(scope, steps))
    found = resize(image, how)
    assert resize(image, how, fixed=(32, 32)).image.shape == (32, 32, 3)
    assert found.image.dtype == expected['img'].dtype
    np.testing.assert_array_equal(found.image, expected['img'])
    if not {'Pad', 'CenterCrop'} & {step['type'] for step in steps}:
        assert found.content == expected['img_shape'][:2]


def test_a_fixed_size_is_filled_as_the_transforms_do_and_another_one_warns(capsys):
    steps = [dict(type='Resize', scale=(96, 72), keep_ratio=True), dict(type='ResizeToMultiple')]
    image = np.random.default_rng(0).integers(0, 256, (72, 96, 3), dtype=np.uint8)
    expected = run_steps('mmseg', steps, img=image.copy())['img']
    settings = resize_of(config_of('mmseg', steps))
    np.testing.assert_array_equal(resize(image, settings, fixed=(96, 96)).image, expected)
    warn_of_sides((96, 96), Metadata(resize=settings))
    assert not capsys.readouterr().err
    warn_of_sides((72, 96), Metadata(resize=settings))
    assert 'multiples of 32: results with --shape 96 96' in capsys.readouterr().err


@pytest.mark.parametrize(
    'load', [LOAD, dict(LOAD, imdecode_backend='pillow', color_type='color_ignore_orientation')]
)
def test_image_files_are_decoded_and_rotated_as_the_loader_does(load, tmp_path):
    path = tmp_path / 'rotated.jpg'
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(path, exif=exif)
    expected = run_steps('mmpretrain', [load], img_path=str(path))['img']
    found = prepare(path, Metadata(resize=resize_of(config_of('mmpretrain', [load]))))
    np.testing.assert_array_equal(found[0], expected[..., ::-1].transpose(2, 0, 1))
    assert found.shape[2:] == ((60, 40) if load is LOAD else (40, 60))


@pytest.mark.parametrize('mode', ['L', 'LA', 'P', 'RGBA'])
def test_images_of_every_kind_of_color_are_decoded_as_pillow_does_for_mmcv(mode, tmp_path):
    path = tmp_path / 'image.png'
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 4), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    load = dict(LOAD, imdecode_backend='pillow', color_type='color_ignore_orientation')
    expected = run_steps('mmpretrain', [load], img_path=str(path))['img']
    found = prepare(path, Metadata(resize=resize_of(config_of('mmpretrain', [load]))))
    np.testing.assert_array_equal(found[0], expected[..., ::-1].transpose(2, 0, 1))


def test_files_of_one_size_are_padded_with_the_color_of_the_config(tmp_path):
    path = tmp_path / 'black.png'
    cv2.imwrite(str(path), np.zeros((20, 40, 3), np.uint8))
    steps = [RESIZE, dict(type='Pad', pad_to_square=True, pad_val=GRAY)]
    metadata = partial(Metadata, mean=(10, 20, 30), std=(1, 2, 3), pad_value=5)
    padded = metadata(resize=resize_of(config_of('mmdet', steps)))
    assert prepare(path, padded, (64, 64))[0, :, -1, 0].tolist() == [112, 113, 114]
    plain = metadata(resize=resize_of(config_of('mmdet', steps[:1])))
    # the value of the data preprocessor, in RGB
    assert prepare(path, plain, (64, 64))[0, :, -1, 0].tolist() == [15, 30, 45]
    swapped = metadata(resize=plain.resize, network_colors='BGR')
    assert prepare(path, swapped, (64, 64))[0, :, -1, 0].tolist() == [45, 30, 15]


UNSUPPORTED = {
    'Resize with scale_factor': ('mmdet', [dict(type='Resize', scale_factor=0.5)]),
    "ResizeEdge with edge='long'": ('mmpretrain', [dict(type='ResizeEdge', scale=9, edge='long')]),
    'ResizeEdge except in classifiers': ('mmdet', [dict(type='mmpretrain.ResizeEdge', scale=9)]),
    'ResizeShortestEdge': ('mmseg', [dict(type='ResizeShortestEdge', scale=9, max_size=99)]),
    'FixScaleResize': ('mmdet', [dict(type='FixScaleResize', scale=(9, 9), keep_ratio=True)]),
    'Normalize': ('mmdet', [dict(type='Normalize', mean=[0] * 3, std=[1] * 3)]),
    "Pad with padding_mode='edge'": (
        'mmdet', [dict(type='Pad', size_divisor=32, padding_mode='edge')],
    ),
    'CenterCrop with auto_pad=True': (
        'mmpretrain', [dict(type='CenterCrop', crop_size=64, auto_pad=True)],
    ),
    "ResizeToMultiple with interpolation='area'": (
        'mmseg', [dict(type='ResizeToMultiple', interpolation='area')],
    ),
    'LoadImageFromFile with to_float32=True': ('mmdet', [dict(LOAD, to_float32=True)]),
    "LoadImageFromFile with imdecode_backend='pillow' and color_type='color'": (
        'mmdet', [dict(LOAD, imdecode_backend='pillow')],
    ),
    'Pad in segmentors: set model.data_preprocessor.test_cfg': (
        'mmseg', [dict(type='Pad', size=(64, 64))],
    ),
    'Resize after Pad': ('mmdet', [dict(type='Pad', size=(64, 64)), RESIZE]),
    'Resize after Resize': ('mmdet', [RESIZE, RESIZE]),
    'torchvision/Resize': ('mmpretrain', [dict(type='torchvision/Resize', size=9)]),
    'NoSuchTransform': ('mmdet', [dict(type='NoSuchTransform')]),
}  # fmt: skip


@pytest.mark.parametrize('name', UNSUPPORTED)
def test_what_a_file_cannot_apply_is_named_with_its_key_and_what_it_can(name):
    scope, steps = UNSUPPORTED[name]
    with pytest.raises(UserError) as caught:
        resize_of(config_of(scope, [*steps, dict(type='PackDetInputs')]))
    key = f'test_dataloader.dataset.pipeline.{len(steps) - 1}'
    text = str(caught.value)
    assert text.startswith(f'an exported file cannot apply {name} ({key} in ')
    assert all(stage in text for stage in STAGES)
    assert '\n' not in text


def test_values_beyond_the_schema_of_the_metadata_are_named():
    with pytest.raises(UserError, match="no interpolation 'area'"):
        resample(np.zeros((8, 8, 3), np.uint8), (4, 4), 'area', 'pillow')
    steps = [dict(type='Resize', scale=(64, 64), interpolation='hamming', backend='pillow')]
    with pytest.raises(UserError, match=r"test pipeline: resize\.interpolation is 'hamming'"):
        resize_of(config_of('mmdet', steps))


def test_a_transform_of_a_user_with_a_known_name_is_not_taken_for_ours():
    known = TRANSFORMS.get('mmdet.Resize')

    class Resize(known):
        pass

    config = config_of('mmdet', [dict(type=Resize, scale=(64, 64))])
    with pytest.raises(UserError, match='cannot apply Resize '):
        resize_of(config)
    assert resize_of(config_of('mmdet', [dict(type=known, scale=(64, 64))]))['scale'] == (64, 64)


@pytest.mark.parametrize('host', HOSTS)
def test_every_registered_transform_is_known_or_rejected(host):
    import_module(f'{host}.datasets')
    with TRANSFORMS.switch_scope_and_registry(host) as scoped:
        names = {*scoped.module_dict, *OF_MMCV.module_dict}
    assert len(names) > 30
    passed = set()
    for name in names:
        if 'Annotation' in name:  # not applied to images
            continue
        step = dict(type=name, scale=8, crop_size=8, size=(8, 8))
        with suppress(UserError):
            resize_of(config_of(host, [step]))
            passed.add(name)
    assert passed <= set(STAGES)
    assert {'LoadImageFromFile', 'Resize', *(['Pad'] if host != 'mmseg' else [])} <= passed


def test_metadata_without_a_transform_of_the_pipeline_are_found_at_the_export(
    picture, tmp_path, monkeypatch
):
    from mmeffvit.deploy.export import ToolOptions, export_model
    from mmeffvit.deploy.graphs import metadata
    from mmeffvit.inference.predictor import Predictor
    from tests.deploy import models

    options = ToolOptions((64, 96), 1, image=picture, backbone_only=True)
    files = models.save_run('retinanet_swiftformer_l1', tmp_path)
    predictor = Predictor(*files, device='cpu')
    settings = metadata.resize_of(predictor.config)
    monkeypatch.setattr(metadata, 'resize_of', lambda config: {**settings, 'scale': [64, 64]})
    with pytest.raises(UserError, match=r'disagrees.*an input of 48 x 64 instead of 800 x 1067 pi'):
        export_model(predictor, tmp_path / 'model.onnx', options)
    assert not (tmp_path / 'model.onnx').exists()
    monkeypatch.undo()
    # a backbone may have any pipeline; its images need a size then
    predictor.config.test_dataloader.dataset.pipeline[1] = dict(type='Resize', scale_factor=1.0)
    export_model(predictor, tmp_path / 'model.onnx', options)
    with pytest.raises(UserError, match='cannot apply Resize with scale_factor'):
        export_model(predictor, tmp_path / 'whole.onnx', replace(options, backbone_only=False))
