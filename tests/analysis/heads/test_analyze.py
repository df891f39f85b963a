"""Head analysis of a small segmentor and of a small detector, as a user runs it."""

import csv
import json
import re
from pathlib import Path

import cv2
import pytest
import torch

from mmeffvit.analysis.heads.analyze import digest_of_test
from mmeffvit.config.load import load_config, open_config
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.engine.evaluate import EvaluationOptions, evaluate, open_test
from mmeffvit.train.engine.metrics import in_percent
from tests.analysis.small import save, save_segmentor
from tests.conftest import ROOT, message_of, run_command_here, succeeded
from tests.inference.untrained import save_untrained
from tests.learning.cases import BY_HEAD


@pytest.fixture(scope='module')
def segmentor(ade_shapes, tmp_path_factory) -> tuple[Path, Path]:
    return save_segmentor('mmeffvit.PVTv2', ade_shapes, tmp_path_factory.mktemp('segmentor'))


def analyze(config: Path, checkpoint: Path, out: Path, *arguments: object):
    return run_command_here('analyze', 'heads', config, checkpoint, '--out', out, *arguments)


def test_a_head_is_worth_what_the_model_reaches_without_its_columns(segmentor, tmp_path):
    config, checkpoint = segmentor
    arguments = '--keep-one', '--layers', 'stages.2', 'stages.3.blocks.0'
    printed = succeeded(analyze(config, checkpoint, tmp_path, *arguments))
    table = json.loads((tmp_path / 'heads.json').read_text())
    layers = table['layers']
    names = [f'backbone.stages.{i}.blocks.0.attention' for i in (2, 3)]
    assert {name: len(heads) for name, heads in layers.items()} == dict(
        zip(names, (5, 8), strict=True)
    )
    content = read_content(checkpoint)
    whole = content['state_dict'][f'{names[0]}.proj.weight']
    weight = torch.zeros_like(whole)
    weight[:, 4:8] = whole[:, 4:8]
    content['state_dict'][f'{names[0]}.proj.weight'] = weight
    torch.save(content, tmp_path / 'one.pth')
    options = EvaluationOptions(tmp_path / 'e')
    _, metrics = evaluate(str(config), str(tmp_path / 'one.pth'), options)
    assert layers[names[0]][1]['alone'] == in_percent(metrics)
    found = []
    for head in (1, 3):
        weight = whole.clone()
        weight[:, 4 * head : 4 * head + 4] = 0
        content['state_dict'][f'{names[0]}.proj.weight'] = weight
        torch.save(content, tmp_path / 'blind.pth')
        _, metrics = evaluate(str(config), str(tmp_path / 'blind.pth'), options)
        found.append(in_percent(metrics))
    assert [layers[names[0]][head]['metrics'] for head in (1, 3)] == found
    assert found != [table['baseline']] * 2  # the heads do matter
    rows = list(csv.DictReader((tmp_path / 'heads.csv').open()))
    assert [(row['layer'], row['head']) for row in rows] == [
        (name, str(head)) for name in names for head in range(len(layers[name]))
    ]
    assert min(cv2.imread(str(tmp_path / 'heads.png')).shape[:2]) > 300
    assert re.search(r'stages\.2\.blocks\.0\.attention +5 ', printed)
    assert printed.count('per class results') == 1  # of the full model alone

    # heads of an interrupted run are not tested again, and those of other layers are kept
    layers[names[1]][7]['metrics'] = None
    (tmp_path / 'heads.json').write_text(json.dumps(table))
    again = analyze(config, checkpoint, tmp_path, '--layers', 'stages.3')
    (line,) = re.findall(r'^\[.*', again.stdout, re.MULTILINE)
    assert line.startswith(f'[1/1] {names[1]}, head 7: mIoU ')
    finished = json.loads((tmp_path / 'heads.json').read_text())['layers']
    assert finished[names[0]] == layers[names[0]]
    assert finished[names[1]][:7] == layers[names[1]][:7]
    assert finished[names[1]][7]['metrics']

    # those of another test stay
    other = tmp_path / 'other' / config.name
    other.parent.mkdir()
    other.write_text(f"_base_ = '{config}'\ntest_evaluator = dict(iou_metrics=['mIoU', 'mDice'])\n")
    before = (tmp_path / 'heads.json').read_bytes()
    assert 'choose another --out-dir' in message_of(analyze(other, checkpoint, tmp_path))
    assert (tmp_path / 'heads.json').read_bytes() == before


def test_heads_of_deformable_detr_are_compared(shapes, tmp_path):
    case = BY_HEAD['Deformable DETR']
    model = save_untrained(case, tmp_path / 'detr', shapes)
    out = tmp_path / 'heads'
    arguments = '--no-ablation', '--max-images', 1
    succeeded(analyze(model.config, model.checkpoint, out, *arguments))
    layers = json.loads((out / 'heads.json').read_text())['layers']
    heads = {
        name: (len(rows), {row['maps'] is None for row in rows}) for name, rows in layers.items()
    }
    for i in range(3):
        single = i == 1  # the middle layer
        attention = '.attention' if single else ''
        deformable = 1 if single else 8, {True}
        assert heads.pop(f'encoder.layers.{i}.self_attn{attention}') == deformable
        assert heads.pop(f'decoder.layers.{i}.cross_attn{attention}') == deformable
        assert heads.pop(f'decoder.layers.{i}.self_attn.attn') == (8, {False})
    assert not heads
    assert all(row['metrics'] is None for rows in layers.values() for row in rows)
    assert (out / 'heads.png').stat().st_size > 5000


def test_few_images_are_judged_by_their_own_objects(shapes, tmp_path):
    options = {'data_root': f'{shapes}/'}
    base = ROOT / 'configs' / 'maskrcnn_swiftformer_xs_shapes.py'
    config, checkpoint = save(load_config(base, options), tmp_path)
    options = EvaluationOptions(tmp_path / 'w', max_images=2)
    runner, _ = open_test(str(config), str(checkpoint), options)
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
        (('--max-images', 0), '--max-images is 0; it must be at least 1'),
        (('--layers', 'nothing'), "no layer matches 'nothing'; choose from backbone"),
    ],
)
def test_mistakes_end_in_one_message(arguments, words, segmentor, tmp_path):
    assert words in message_of(analyze(*segmentor, tmp_path, *arguments))
    assert not (tmp_path / 'heads.json').exists()


def test_a_table_is_of_the_settings_of_its_model():
    first, second = (open_config('gflite_efficientformerv2_s0') for _ in range(2))
    assert digest_of_test(first) == digest_of_test(second)
    second.model.test_cfg.score_thr = 0.9
    assert digest_of_test(first) != digest_of_test(second)
