"""The metrics reported in papers, in percent, from the packages' metrics."""

from collections.abc import Mapping
from typing import Any

from mmengine.hooks import Hook
from mmengine.runner import Runner

# by name in mmdet, mmseg or mmpretrain: name in papers, factor to percent, and decimals
MEASURED = {
    'coco/bbox_mAP': ('box AP', 100, 1),
    'coco/segm_mAP': ('mask AP', 100, 1),
    'mIoU': ('mIoU', 1, 2),
    'accuracy/top1': ('Top 1 Accuracy', 1, 2),
    'accuracy/top5': ('Top 5 Accuracy', 1, 2),
}
LOW = 1.0  # percent: a model below this has not learned


def in_percent(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that papers report, under the papers' names; COCO's -1 means undefined."""
    return {
        name: round(float(metrics[key]) * factor, decimals)
        for key, (name, factor, decimals) in MEASURED.items()
        if metrics.get(key, -1) >= 0
    }


def percent_text(metrics: Mapping[str, Any]) -> str:
    """Such as 'box AP 21.2 %, mask AP 19.8 %'; empty if there are none of these."""
    return ', '.join(f'{name} {value} %' for name, value in in_percent(metrics).items())


class PercentHook(Hook):
    """Log metrics in percent, like papers: mmdet logs an AP of 1.2 % as 0.012."""

    priority = 'VERY_LOW'  # after the line of the runner

    def after_val_epoch(self, runner: Runner, metrics: dict[str, float] | None = None) -> None:
        if found := percent_text(metrics or {}):
            runner.logger.info(f'in percent: {found}')

    after_test_epoch = after_val_epoch
