"""A folder of images per class trains a classifier, whatever the classes are called."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmeffvit.config.datasets import evaluated_split
from mmeffvit.config.load import load_config
from mmeffvit.data.detect import detect
from mmeffvit.errors import UserError
from mmeffvit.train.engine.evaluate import DrawClassesHook
from mmeffvit.train.folder.base import Start
from mmeffvit.train.folder.classify import classify, config_lines
from mmeffvit.train.folder.options import FinetuneOptions
from mmeffvit.train.folder.recipe import Overrides
from tests.conftest import output_of
from tests.data import layouts
from tests.train.folder.test_config import peak_and_end

NEEDED = ('rate', 'epochs', 'iterations', 'param_scheduler')
CLASSES = ['a {{b}}', 'rose', "tulip'", 'été']


@pytest.fixture
def flowers(tmp_path) -> Path:
    layout = {f'{name}/{i} .png': layouts.IMAGE for name in CLASSES for i in range(5)}
    return layouts.write(tmp_path / 'flowers', layout)


@pytest.mark.slow
def test_a_folder_per_class_trains_a_classifier_in_few_lines(flowers, tmp_path):
    pytest.importorskip('mmpretrain')
    work_dir = tmp_path / 'work'
    (flowers / 'rose' / 'broken.jpg').write_bytes(b'no image')
    printed = output_of(
        'train', flowers, '--weights', 'none', '--epochs', 1, '--batch', 4, '--work-dir', work_dir,
        '--skip-broken',
    )  # fmt: skip
    assert 'left out: 1 image' in printed
    assert 'classifier_shvit_s1 on flowers: Top 1 Accuracy' in printed
    assert len(printed.splitlines()) < 40
    config = load_config(work_dir / 'classifier_shvit_s1.py')
    assert config.model.head.num_classes == 4
    assert list(config.train_dataloader.dataset.metainfo.classes) == CLASSES
    held_out = (work_dir / 'index' / 'val.txt').read_text().splitlines()
    assert sorted(line[-1] for line in held_out) == ['0', '1', '2', '3']  # one of each class


def test_drawn_images_keep_their_colors_and_have_a_file_each(tmp_path):
    pytest.importorskip('mmpretrain')
    from mmpretrain.structures import DataSample
    from mmpretrain.visualization import UniversalVisualizer

    red = torch.zeros(3, 64, 96, dtype=torch.uint8)
    red[2] = 240  # BGR
    samples = [
        DataSample(metainfo=dict(img_path=f'{folder}/1.png')).set_gt_label(0).set_pred_label(0)
        .set_pred_score(torch.tensor([0.9, 0.1])) for folder in 'ab'
    ]  # fmt: skip
    runner = SimpleNamespace(visualizer=UniversalVisualizer())
    DrawClassesHook(str(tmp_path)).after_test_iter(runner, 0, dict(inputs=[red] * 2), samples)
    first, second = (cv2.imread(str(path)) for path in sorted(tmp_path.iterdir()))
    assert first.shape == second.shape == (64, 96, 3)
    blue, _, strong = np.median(first.reshape(-1, 3), axis=0)
    assert (blue, strong) == (0, 240)


def test_options_that_do_nothing_and_unknown_classes_are_rejected(flowers, tmp_path):
    pytest.importorskip('mmpretrain')
    for overrides, option in ((dict(image_size=96), 'image-size'), (dict(freeze=1), 'freeze')):
        options = FinetuneOptions(overrides=Overrides(**overrides), work_dir=tmp_path / 'work')
        with pytest.raises(UserError, match=f'--{option} is not for classifiers'):
            classify(flowers, options)
    with pytest.raises(UserError, match='--int8 is not for classifiers'):
        classify(flowers, FinetuneOptions(int8=True, work_dir=tmp_path / 'work'))
    with pytest.raises(UserError, match='is no classifier without a teacher'):
        classify(flowers, FinetuneOptions(model='rtmdet_shvit_s1', work_dir=tmp_path / 'work'))
    parts = tmp_path / 'parts'
    shutil.copytree(flowers, parts / 'train')
    shutil.copytree(flowers, parts / 'val')
    assert detect(parts).match.place[1] == dict(train=parts / 'train', val=parts / 'val')
    shutil.copytree(flowers, parts / 'Valid')
    with pytest.raises(UserError, match='are for the same split: give the one to use'):
        detect(parts).read()
    shutil.rmtree(parts / 'Valid')
    (parts / 'val' / 'rose').rename(parts / 'val' / 'daisy')
    with pytest.raises(UserError, match=r'classes that .*train does not have: daisy'):
        classify(parts, FinetuneOptions(weights='none', work_dir=tmp_path / 'work'))


@pytest.mark.parametrize(('epochs', 'number'), [(1, 40), (6, 10), (14, 5), (60, 300)])
def test_a_classifier_reaches_its_learning_rate_and_no_batch_has_one_image(epochs, number):
    lines = config_lines(number, Overrides(epochs=epochs, batch=4), Start('random weights'))
    names = dict(data_root='', index='', classes=['a', 'b'])
    exec('\n'.join(lines), names)
    peak, _ = peak_and_end(Config({key: names[key] for key in NEEDED}))
    assert peak == pytest.approx(names['rate'], rel=0.02)
    assert names['train_dataloader']['drop_last']
    assert names['iterations'] == number // 4


def test_sgd_has_a_rate_of_its_own():
    rates = []
    for optimizer in ('AdamW', 'SGD'):
        config = dict(data_root='', index='', classes=['a', 'b'])
        exec('\n'.join(config_lines(64, Overrides(), Start('x'), optimizer=optimizer)), config)
        rates.append(config['rate'])
    assert rates[1] / rates[0] == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize(('number', 'batch'), [(1, None), (9, 1)])
def test_a_batch_of_one_image_is_too_small_for_a_classifier(number, batch):
    with pytest.raises(UserError, match='batch norm needs a batch size of 2 or more'):
        config_lines(number, Overrides(batch=batch), Start('random weights'))


@pytest.mark.parametrize('has_test', [False, True])
def test_a_classifier_is_tested_on_the_test_split_if_there_is_one(has_test):
    lines = config_lines(8, Overrides(), Start('random weights'), has_test=has_test)
    config = dict(data_root='', index='', classes=['a', 'b'])
    exec('\n'.join(lines), config)
    assert evaluated_split(config) == ('test' if has_test else 'val')
