"""The inferencers of mmdet and mmseg work with our configs and checkpoints."""

from dataclasses import replace
from importlib import import_module

import pytest

from tests.learning.cases import BY_HEAD
from tests.learning.overfit import overfit


@pytest.mark.slow
@pytest.mark.parametrize(
    ('head', 'scope', 'inferencer', 'images'),
    [
        ('Mask R-CNN', 'mmdet', 'DetInferencer', 'val2017/*.png'),
        ('SegFormer', 'mmseg', 'MMSegInferencer', 'images/training/*.jpg'),
    ],
)
def test_an_inferencer_works(head, scope, inferencer, images, request, tmp_path):
    case = BY_HEAD[head]
    paths = sorted(map(str, request.getfixturevalue(case.data).glob(images)))[:2]
    scale = {'test_dataloader.dataset.pipeline.1.scale': (case.side, case.side)}
    overfit(replace(case, options={**case.options, **scale}), tmp_path, iterations=0)
    run, out = tmp_path / 'run', tmp_path / 'out'
    infer = getattr(import_module(f'{scope}.apis'), inferencer)(
        str(run / f'{case.config_name}.py'), str(run / 'iter_1.pth'), device='cpu'
    )
    found = infer(paths, out_dir=str(out))['predictions']
    assert len(found) == len(list((out / 'vis').iterdir())) == 2
    if scope == 'mmdet':
        assert set(found[0]) >= {'labels', 'scores', 'bboxes', 'masks'}
    else:
        assert [labels.ndim for labels in found] == [2, 2]
        assert len(list((out / 'pred').glob('*.png'))) == 2
