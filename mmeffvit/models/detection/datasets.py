"""Datasets that mmdet lacks."""

from mmcv.transforms import Compose
from mmdet.datasets import CocoDataset
from mmengine.dataset import ClassBalancedDataset as StockClassBalancedDataset

from mmeffvit.registries import DATASETS


@DATASETS.register_module()
class ClassBalancedDataset(StockClassBalancedDataset):
    """mmengine's wrapper, whose pipeline hooks can replace, such as mmdet's PipelineSwitchHook."""

    @property
    def pipeline(self) -> Compose:
        return self.dataset.pipeline

    @pipeline.setter
    def pipeline(self, pipeline: Compose) -> None:
        self.dataset.pipeline = pipeline


@DATASETS.register_module()
class ScoredCocoDataset(CocoDataset):
    """COCO format with the ``score`` of predictions, in [0, 1], for transforms; 1 without one."""

    def parse_data_info(self, raw_data_info: dict) -> dict:
        """The image and its instances, each with its score."""
        scored = {**raw_data_info, 'raw_ann_info': []}
        found = super().parse_data_info(scored)
        for annotation in raw_data_info['raw_ann_info']:
            scored['raw_ann_info'] = [annotation]
            for instance in super().parse_data_info(scored)['instances']:
                instance['score'] = annotation.get('score', 1.0)
                found['instances'].append(instance)
        return found
