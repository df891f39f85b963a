"""Datasets for classifiers that mmpretrain lacks."""

from pathlib import Path
from typing import Any

from mmpretrain.datasets import ImageNet

from mmeffvit.errors import UserError
from mmeffvit.registries import DATASETS


@DATASETS.register_module()
class ImageNetV2(ImageNet):
    """ImageNetV2 (arXiv:1902.10811): new test images of the classes of ImageNet-1k.

    Its folders are named by the index of the class, 0 to 999, as they are in the archives
    ``imagenetv2-matched-frequency``, ``-threshold0.7`` and ``-top-images``. Read as ImageNet, they
    would be sorted as texts: 0, 1, 10, 100.

    Raises:
        UserError: If a folder's name is no index.
    """

    def load_data_list(self) -> list[dict[str, Any]]:
        items = super().load_data_list()
        for item in items:
            name = Path(item['img_path']).parent.name
            if not name.isdecimal() or int(name) >= len(self.CLASSES):
                raise UserError(
                    f'{item["img_path"]} is not in ImageNetV2: its folders are named 0 to 999'
                )
            item['gt_label'] = int(name)
        return items
