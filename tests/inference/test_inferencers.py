"""The inferencers of mmdet and mmseg work with our configs and checkpoints."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.learning.cases import CASES
from tests.learning.overfit import overfit

THREE_LINES = """
import mmeffvit
from {scope}.apis import {inferencer}
found = {inferencer}({config!r}, {checkpoint!r}, device='cpu')({images!r}, out_dir={out!r})
"""


def run_of(head: str, folder: Path) -> tuple[str, str]:
    """The config and the checkpoint of a training run of one step on small images."""
    (case,) = [case for case in CASES if case.head == head]
    scale = {'test_dataloader.dataset.pipeline.1.scale': (case.side, case.side)}
    overfit(replace(case, options={**case.options, **scale}), folder, iterations=0)
    return str(folder / 'run' / f'{case.config_name}.py'), str(folder / 'run' / 'iter_1.pth')


@pytest.mark.slow
def test_det_inferencer_works_in_three_lines(shapes, tmp_path):
    config, checkpoint = run_of('Mask R-CNN', tmp_path)
    images, out = str(shapes / 'val2017' / '000000.png'), tmp_path / 'out'
    code = THREE_LINES.format(
        scope='mmdet', inferencer='DetInferencer', config=config, checkpoint=checkpoint,
        images=images, out=str(out),
    )  # fmt: skip
    names: dict = {}
    exec(code, names)
    assert set(names['found']['predictions'][0]) >= {'labels', 'scores', 'bboxes', 'masks'}
    assert len(list((out / 'vis').glob('*.png'))) == 1


@pytest.mark.slow
def test_mmseg_inferencer_works_in_three_lines(ade_shapes, tmp_path):
    config, checkpoint = run_of('SegFormer', tmp_path)
    images, out = str(ade_shapes / 'images' / 'validation'), tmp_path / 'out'
    code = THREE_LINES.format(
        scope='mmseg', inferencer='MMSegInferencer', config=config, checkpoint=checkpoint,
        images=[*map(str, Path(images).glob('*.jpg'))] * 2, out=str(out),
    )  # fmt: skip
    names: dict = {}
    exec(code, names)
    assert [labels.ndim for labels in names['found']['predictions']] == [2, 2]
    assert len(list((out / 'pred').glob('*.png'))) == 2
    assert len(list((out / 'vis').glob('*.jpg'))) == 1
