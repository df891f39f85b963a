"""Datasets that mmseg lacks."""

import os

from mmseg.datasets import BaseSegDataset

from mmeffvit.errors import UserError
from mmeffvit.registries import DATASETS
from mmeffvit.utils.files import read_json


@DATASETS.register_module()
class PairedSegDataset(BaseSegDataset):
    """Images with label maps under any other name.

    ``ann_file`` is a JSON file with the pairs: ``[[image, label map], ...]``, relative to the
    folders in ``data_prefix``.
    """

    def load_data_list(self) -> list[dict]:
        pairs = read_json(self.ann_file)
        if not isinstance(pairs, list) or not all(map(is_pair, pairs)):
            raise UserError(f'{self.ann_file} must be a list of [image, label map]')
        images, maps = (self.data_prefix.get(key) or '' for key in ('img_path', 'seg_map_path'))
        return [
            dict(
                img_path=os.path.join(images, image),
                seg_map_path=os.path.join(maps, label_map),
                label_map=self.label_map,
                reduce_zero_label=self.reduce_zero_label,
                seg_fields=[],
            )
            for image, label_map in pairs
        ]


def is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value)
