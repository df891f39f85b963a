"""Which checkpoint of a run is the best."""

import pytest

from mmeffvit.train.engine.train import make_interruptible
from mmeffvit.zoo.runs import best_checkpoint
from tests.cli.test_console import run


@pytest.mark.parametrize('rule', ['greater', None])
@pytest.mark.parametrize(
    ('values', 'best'), [((0.0, 0.0, 0.0), 3), ((0.0, 0.2, 0.1), 2), ((0.3, 0.2, 0.3), 3)]
)
def test_the_last_of_equal_checkpoints_is_the_best(values, best, rule, tmp_path):
    saving = dict(type='CheckpointHook', save_best='auto' if rule is None else 'coco/bbox_mAP')
    run(
        tmp_path, make_interruptible, dict(by_epoch=True, max_epochs=3), images=2, values=values,
        default_hooks=dict(checkpoint=dict(saving, rule=rule)),
    )  # fmt: skip
    assert best_checkpoint(tmp_path).path.name == f'best_coco_bbox_mAP_epoch_{best}.pth'
