"""Which checkpoint of a run is the best."""

import pytest
import torch
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.runner import Runner

from mmeffvit.train.engine.train import make_interruptible
from mmeffvit.zoo.runs import best_checkpoint
from tests.cli.test_console import Model


class Given(BaseMetric):
    """Metrics given in advance, one per validation."""

    default_prefix = 'coco'

    def __init__(self, values: tuple[float, ...]) -> None:
        super().__init__()
        self.values = iter(values)

    def process(self, data_batch: object, data_samples: object) -> None:
        self.results.append(None)

    def compute_metrics(self, results: list) -> dict[str, float]:
        return dict(bbox_mAP=next(self.values))


@pytest.mark.parametrize('rule', ['greater', None])
@pytest.mark.parametrize(
    ('values', 'best'), [((0.0, 0.0, 0.0), 3), ((0.0, 0.2, 0.1), 2), ((0.3, 0.2, 0.3), 3)]
)
def test_the_last_of_equal_checkpoints_is_the_best(values, best, rule, tmp_path):
    data = [dict(inputs=torch.zeros(3, 4, 4)) for _ in range(2)]
    loader = dict(dataset=data, sampler=dict(type='DefaultSampler'), batch_size=2, num_workers=0)
    saving = dict(type='CheckpointHook', save_best='auto' if rule is None else 'coco/bbox_mAP')
    runner = Runner(
        Model(), str(tmp_path), train_dataloader=loader,
        train_cfg=dict(by_epoch=True, max_epochs=3), val_cfg={}, val_dataloader=loader,
        val_evaluator=Evaluator(Given(values)),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1)),
        default_hooks=dict(checkpoint=dict(saving, rule=rule)), default_scope='mmengine',
        experiment_name=f'{tmp_path.name}_{rule}',
    )  # fmt: skip
    make_interruptible(runner)
    runner.train()
    assert best_checkpoint(tmp_path).path.name == f'best_coco_bbox_mAP_epoch_{best}.pth'
