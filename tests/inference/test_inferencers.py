"""The inferencers of mmdet and mmseg work with our configs and checkpoints."""

from dataclasses import replace

import pytest

from tests.learning.cases import CASES
from tests.learning.overfit import overfit

THREE_LINES = """
import mmeffvit
from {scope}.apis import {inferencer}
found = {inferencer}({config!r}, {checkpoint!r}, device='cpu')({images!r}, out_dir={out!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ('head', 'scope', 'inferencer', 'images'),
    [
        ('Mask R-CNN', 'mmdet', 'DetInferencer', 'val2017/*.png'),
        ('SegFormer', 'mmseg', 'MMSegInferencer', 'images/training/*.jpg'),
    ],
)
def test_an_inferencer_works_in_three_lines(head, scope, inferencer, images, request, tmp_path):
    (case,) = [case for case in CASES if case.head == head]
    paths = sorted(map(str, request.getfixturevalue(case.data).glob(images)))[:2]
    scale = {'test_dataloader.dataset.pipeline.1.scale': (case.side, case.side)}
    overfit(replace(case, options={**case.options, **scale}), tmp_path, iterations=0)
    run, out = tmp_path / 'run', tmp_path / 'out'
    code = THREE_LINES.format(
        scope=scope, inferencer=inferencer, config=str(run / f'{case.config_name}.py'),
        checkpoint=str(run / 'iter_1.pth'), images=paths, out=str(out),
    )  # fmt: skip
    names: dict = {}
    exec(code, names)
    found = names['found']['predictions']
    assert len(found) == len(list((out / 'vis').iterdir())) == 2
    if scope == 'mmdet':
        assert set(found[0]) >= {'labels', 'scores', 'bboxes', 'masks'}
    else:
        assert [labels.ndim for labels in found] == [2, 2]
        assert len(list((out / 'pred').glob('*.png'))) == 2
