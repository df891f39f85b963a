"""Head analysis of a small segmentor and of a small detector, as a user runs it."""

import csv
import json
import re
from pathlib import Path

import cv2
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope

from mmeffvit.checkpoints.read import load_torch_file
from mmeffvit.config.build import build_model, own_model_config
from mmeffvit.config.load import load_config
from mmeffvit.engine.launch import RunOptions, evaluate, open_test
from mmeffvit.engine.metrics import in_percent
from tests.conftest import ROOT, run_tool_here

SEGMENTOR = """
_base_ = [{base!r}]
model = dict(
    backbone=dict(
        _delete_=True, type='mmeffvit.PVTv2',
        arch=dict(channels=(8, 16, 20, 32), depths=(1, 1, 1, 1), expansions=(1, 1, 1, 1)),
    ),
    neck=dict(in_channels=[8, 16, 20, 32], out_channels=16),
    decode_head=dict(in_channels=[16] * 4, channels=16, num_classes=5),
)
classes = ('ground', 'circle', 'square', 'triangle', 'star')
test_dataloader = dict(
    num_workers=0, persistent_workers=False, dataset=dict(
        _delete_=True, type='BaseSegDataset', data_root={data!r}, reduce_zero_label=True,
        data_prefix=dict(img_path='images/validation', seg_map_path='annotations/validation'),
        metainfo=dict(classes=classes, palette=[[0] * 3] * 5),
        pipeline=[
            dict(type='LoadImageFromFile'),
            dict(type='LoadAnnotations', reduce_zero_label=True),
            dict(type='PackSegInputs'),
        ],
    ),
)
"""


def save(config: Config, folder: Path) -> tuple[Path, Path]:
    """A config and a checkpoint with random weights, large enough for the heads to matter."""
    config.dump(folder / 'config.py')
    init_default_scope(config.default_scope)
    torch.manual_seed(0)
    model = build_model(own_model_config(config))
    for name, parameter in model.named_parameters():
        if name.endswith('weight') and parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
        if 'conv_seg' in name:  # blind to what all pixels share, which would give one class
            parameter.data -= parameter.data.mean(dim=-3 if parameter.ndim > 1 else 0, keepdim=True)
    torch.save(dict(state_dict=model.state_dict()), folder / 'epoch_1.pth')
    return folder / 'config.py', folder / 'epoch_1.pth'


@pytest.fixture(scope='module')
def segmentor(ade_shapes, tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp('segmentor')
    base = str(ROOT / 'configs' / 'semfpn_swiftformer_l1_ade20k.py')
    (folder / 'tiny.py').write_text(SEGMENTOR.format(base=base, data=f'{ade_shapes}/'))
    return save(load_config(folder / 'tiny.py'), folder)


def analyze(config: Path, checkpoint: Path, out: Path, *arguments: object):
    work = ('--work-dir', out / 'w')
    return run_tool_here('analyze_heads', config, checkpoint, '--out', out, *work, *arguments)


def test_a_head_is_worth_what_the_model_reaches_without_its_columns(segmentor, tmp_path):
    config, checkpoint = segmentor
    arguments = '--layers', 'stages.2', 'stages.3.blocks.0'
    run = analyze(config, checkpoint, tmp_path, *arguments)
    assert run.returncode == 0, run.stdout
    table = json.loads((tmp_path / 'heads.json').read_text())
    layers = table['layers']
    names = [f'backbone.stages.{i}.blocks.0.attention' for i in (2, 3)]
    assert {name: len(heads) for name, heads in layers.items()} == dict(
        zip(names, (5, 8), strict=True)
    )
    content = load_torch_file(checkpoint)
    whole = content['state_dict'][f'{names[0]}.proj.weight']
    found = []
    for head in (1, 3):
        weight = whole.clone()
        weight[:, 4 * head : 4 * head + 4] = 0
        content['state_dict'][f'{names[0]}.proj.weight'] = weight
        torch.save(content, tmp_path / 'blind.pth')
        _, metrics = evaluate(str(config), str(tmp_path / 'blind.pth'), RunOptions(tmp_path / 'e'))
        found.append(in_percent(metrics))
    assert [layers[names[0]][head]['metrics'] for head in (1, 3)] == found
    assert found != [table['baseline']] * 2  # the heads do matter
    rows = list(csv.DictReader((tmp_path / 'heads.csv').open()))
    assert [(row['layer'], row['head']) for row in rows] == [
        (name, str(head)) for name in names for head in range(len(layers[name]))
    ]
    assert min(cv2.imread(str(tmp_path / 'heads.png')).shape[:2]) > 300
    assert re.search(r'stages\.2\.blocks\.0\.attention +5 ', run.stdout)

    # heads of an interrupted run are not tested again
    layers[names[1]][7]['metrics'] = None
    (tmp_path / 'heads.json').write_text(json.dumps(table))
    again = analyze(config, checkpoint, tmp_path, *arguments)
    assert re.findall(r'^\[.*\].*', again.stdout, re.M) == re.findall(
        r'^\[1/1\] \S+stages\.3\S+, head 7: .*', again.stdout, re.M
    )
    assert len(re.findall(r'^\[1/1\]', again.stdout, re.M)) == 1


def test_few_images_are_judged_by_their_own_objects(shapes, tmp_path):
    options = {'data_root': f'{shapes}/'}
    base = ROOT / 'configs' / 'maskrcnn_swiftformer_xs_shapes.py'
    config, checkpoint = save(load_config(base, options), tmp_path)
    runner, _ = open_test(str(config), str(checkpoint), RunOptions(tmp_path / 'w'), max_images=2)
    (metric,) = runner.test_loop.evaluator.metrics
    metric.metrics = ['bbox']
    dataset = runner.test_loop.dataloader.dataset
    assert len(dataset) == 2
    for info in map(dataset.get_data_info, range(2)):
        boxes = torch.tensor([item['bbox'] for item in info['instances']])
        labels = torch.tensor([item['bbox_label'] for item in info['instances']])
        perfect = dict(bboxes=boxes, labels=labels, scores=torch.ones(len(labels)))
        sample = dict(img_id=info['img_id'], ori_shape=(64, 64), pred_instances=perfect)
        metric.process({}, [sample])
    assert metric.evaluate(2)['coco/bbox_mAP'] == 1  # none of the other images' objects is missed


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (('--max-images', 0), '--max-images is 0; it starts at 1'),
        (('--layers', 'nothing'), "--layers: no layer matches 'nothing'; choose from backbone"),
    ],
)
def test_mistakes_end_in_one_message(arguments, words, segmentor, tmp_path):
    run = analyze(*segmentor, tmp_path, *arguments)
    assert run.returncode == 2, run.stdout
    assert words in run.stdout
    assert 'Traceback' not in run.stdout
    assert not (tmp_path / 'heads.json').exists()
