"""Exported files are evaluated with the data and metrics of a config."""

import json
import re
from pathlib import Path

import cv2
import pytest
import torch
from mmengine.config import Config

from mmeffvit.config.load import load_config
from mmeffvit.deploy.evaluate import FileStep
from mmeffvit.errors import UserError
from mmeffvit.inference.predictor import Predictor
from tests.conftest import output_of, rejected
from tests.deploy import models

DETECTOR = 'rtmdet_swiftformer_xs'


@pytest.fixture(scope='module')
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Config and checkpoint of the tiny detector, with its own best objects as annotations."""
    folder = tmp_path_factory.mktemp('run')
    config, model = models.config_of(DETECTOR), models.tiny(DETECTOR)
    dataset = config.test_dataloader.dataset
    dataset.metainfo = dict(classes=models.CLASSES)
    dataset.update(data_root=f'{folder}/', data_prefix=dict(img=''), ann_file='objects.json')
    height, width = models.SIZE
    for step in dataset.pipeline:
        step.update({'scale': (width, height)} if step['type'] == 'Resize' else {})
        step.update({'size': (width, height)} if step['type'] == 'Pad' else {})
    config.test_evaluator.update(ann_file=f'{folder}/objects.json')
    config.dump(folder / 'tiny.py')
    meta = dict(dataset_meta=dict(classes=models.CLASSES))
    torch.save(dict(state_dict=model.state_dict(), meta=meta), folder / 'tiny.pth')
    for index, image in enumerate(models.smooth_image(models.SIZE, 2)):
        cv2.imwrite(str(folder / f'{index}.png'), image.transpose(1, 2, 0))
    predictor = Predictor(folder / 'tiny.py', folder / 'tiny.pth', device='cpu')
    names = [f'{index}.png' for index in range(2)]
    found = [predictor(folder / name) for name in names]
    objects = [
        (image, label, [*box[:2], *(box[2:] - box[:2])])
        for image, each in enumerate(found)
        for box, label in zip(each.boxes[:8].astype(float), each.labels.tolist(), strict=False)
    ]
    content = dict(
        images=[dict(id=i, file_name=n, height=height, width=width) for i, n in enumerate(names)],
        categories=[dict(id=i, name=name) for i, name in enumerate(models.CLASSES)],
        annotations=[
            dict(id=i, image_id=image, category_id=label, bbox=box, iscrowd=0, area=box[2] * box[3])
            for i, (image, label, box) in enumerate(objects, start=1)
        ],
    )
    (folder / 'objects.json').write_text(json.dumps(content))
    return folder / 'tiny.py', folder / 'tiny.pth'


def test_a_file_that_leaves_nms_to_us_has_the_ap_of_its_checkpoint(trained, tmp_path):
    pytest.importorskip('pnnx')
    file = tmp_path / 'model.param'
    output_of('export', *trained, file, '--shape', *models.SIZE)
    found = []
    for path in (trained[1], file):
        printed = output_of('test', trained[0], path, '--work-dir', tmp_path / path.suffix[1:])
        found.append(float(re.search(r'box AP ([\d.]+) %', printed)[1]))
    assert found[1] == pytest.approx(found[0], abs=0.5)
    assert found[0] > 30


def test_a_file_of_another_task_or_other_classes_is_rejected(trained, tmp_path):
    config, checkpoint = trained
    file = tmp_path / 'model.onnx'
    output_of('export', config, checkpoint, file, '--shape', *models.SIZE)
    work_dir = ('--work-dir', tmp_path / 'test')
    assert 'box AP' in output_of('test', config, file, *work_dir)
    backwards = {'test_dataloader.dataset.metainfo.classes': models.CLASSES[::-1]}
    load_config(config, backwards).dump(tmp_path / 'other.py')
    message = rejected('test', tmp_path / 'other.py', file, *work_dir)
    assert 'was trained on the classes a, b' in message
    for option in ('model.test_cfg.score_thr=0.5', 'test_dataloader.dataset.pipeline.1.scale=9'):
        message = rejected('test', config, file, *work_dir, '--cfg-options', option)
        assert 'has no effect on' in message
    masks = dict(type='CocoMetric', metric=['bbox', 'segm'])
    for scope, words in (('mmseg', 'is for detection, and'), ('mmdet', 'no masks')):
        loader = dict(dataset=dict(type='CocoDataset'))
        other = Config(dict(default_scope=scope, test_dataloader=loader, test_evaluator=masks))
        with pytest.raises(UserError, match=words):
            FileStep(file).check(other, None)
