"""What `--out` of a segmentor keeps."""

from collections.abc import Sequence
from typing import Any

from mmengine.evaluator import DumpResults


class DumpLabelMaps(DumpResults):
    """Dump label maps, predicted and true, without the scores of every class and pixel.

    Those are a hundred times larger: 118 MB for one image of ADE20K.
    """

    def process(self, data_batch: Any, predictions: Sequence[dict]) -> None:
        kept = [{k: v for k, v in sample.items() if k != 'seg_logits'} for sample in predictions]
        super().process(data_batch, kept)
