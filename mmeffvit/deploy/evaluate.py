"""Evaluation of an exported file with the test data and metrics of a config."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.structures import InstanceData, PixelData

from mmeffvit.errors import UserError
from mmeffvit.inference.results import ClassScores, LabelMap, Result
from mmeffvit.train.checks.data import configured_datasets
from mmeffvit.train.checks.run import check_classes

from .runtime.predictor import ExportedPredictor

TASKS = {  # of files, by the scope of a config
    'mmdet': ('detection', 'instance segmentation'),
    'mmseg': ('semantic segmentation',),
    'mmpretrain': ('classification',),
}


class FileStep:
    """A test step that predicts with an exported file, for ``evaluate``.

    Raises:
        UserError: If the file cannot be used.
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self.predictor = path, ExportedPredictor(path)

    def __call__(self, data: Mapping[str, Any]) -> list[Any]:
        for sample in data['data_samples']:
            put_result(sample, self.predictor(sample.img_path))
        return data['data_samples']

    def check(self, config: Config, dataset: Any) -> None:
        """Raise a ``UserError`` if the file is for another task or for other classes."""
        task = self.predictor.metadata.task
        if task not in TASKS.get(config.default_scope, (task,)):
            raise UserError(f'{self.path} is for {task}, and {config.filename} is not')
        measured = configured_datasets(config, ('test',))
        if task != 'instance segmentation' and any(item.measures_masks for item in measured):
            raise UserError(
                f'{self.path} returns no masks, and test_evaluator of {config.filename} measures '
                'them: add --cfg-options test_evaluator.metric=bbox'
            )
        check_classes(str(self.path), self.predictor.classes or None, dataset, 'test')


def put_result(sample: Any, result: Result) -> None:
    """Store a result as a model of mmdet, mmseg or mmpretrain does."""
    if isinstance(result, ClassScores):
        sample.set_pred_score(torch.from_numpy(result.scores))
        sample.set_pred_label(int(result.labels[0]))
    elif isinstance(result, LabelMap):
        sample.pred_sem_seg = PixelData(data=torch.from_numpy(result.labels)[None])
    else:
        found = dict(bboxes=result.boxes, scores=result.scores, labels=result.labels)
        found |= {} if result.masks is None else dict(masks=result.masks)
        sample.pred_instances = InstanceData(**{k: torch.from_numpy(v) for k, v in found.items()})
