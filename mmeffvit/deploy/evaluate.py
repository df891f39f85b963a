"""Evaluation of an exported file with the test data and metrics of a config."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.structures import InstanceData, PixelData

from mmeffvit.inference.results import ClassScores, LabelMap, Result

from .runtime.predictor import ExportedPredictor


def file_step(path: str | Path) -> Callable[[Mapping[str, Any]], list[Any]]:
    """A test step that predicts with an exported file, for ``evaluate``.

    Raises:
        UserError: If the file cannot be used.
    """
    predictor = ExportedPredictor(path)

    def step(data: Mapping[str, Any]) -> list[Any]:
        for sample in data['data_samples']:
            put_result(sample, predictor(sample.img_path))
        return data['data_samples']

    return step


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
