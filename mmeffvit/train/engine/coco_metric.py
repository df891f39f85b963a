"""mmdet's COCO metrics, faster, with the same numbers."""

from collections import OrderedDict
from importlib.util import find_spec
from typing import Any

from mmdet.evaluation.metrics import CocoMetric as StockCocoMetric
from mmdet.evaluation.metrics import coco_metric
from pycocotools.cocoeval import COCOeval

from mmeffvit.registries import METRICS
from mmeffvit.utils.interrupts import deferred
from mmeffvit.utils.quiet import replaced

EXACT = ('bbox', 'segm')  # metrics with the same numbers as pycocotools
FIELDS = {  # that it uses: hotcoco rejects others, such as a supercategory that is no text
    'images': ('id', 'width', 'height', 'file_name'),
    'annotations': ('id', 'image_id', 'category_id', 'bbox', 'segmentation', 'area', 'iscrowd'),
    'categories': ('id', 'name'),
}


@METRICS.register_module()
class CocoMetric(StockCocoMetric):
    """mmdet's metric, computed by hotcoco where it is installed, else by pycocotools.

    Use it in any config of mmdet: ``val_evaluator = dict(type='mmeffvit.CocoMetric', ...)``.
    """

    def compute_metrics(self, results: list[tuple[dict, dict]]) -> OrderedDict[str, float]:
        if self._coco_api is not None:
            self._coco_api.dataset.setdefault('info', {})  # pycocotools copies it
        if not set(self.metrics) <= set(EXACT):
            return super().compute_metrics(results)
        with replaced(coco_metric, 'COCOeval', fast_eval()):
            return super().compute_metrics(results)


def fast_eval() -> type[COCOeval]:
    """The fastest installed evaluation of boxes and masks."""
    return COCOeval if find_spec('hotcoco') is None else HotEval


class HotEval(COCOeval):
    """pycocotools' evaluation with precisions and recalls of hotcoco, which are bit-identical."""

    @deferred()  # a Python exception would abort its Rust code
    def evaluate(self) -> None:
        import hotcoco

        truth = hotcoco.COCO(
            {
                name: [{k: row[k] for k in keys if k in row} for row in self.cocoGt.dataset[name]]
                for name, keys in FIELDS.items()
            }
        )
        # without the fields that pycocotools has added: areas come from boxes or from masks
        shape = 'bbox' if self.params.iouType == 'bbox' else 'segmentation'
        keys = ('image_id', 'category_id', 'score', shape)
        rows = [{key: row[key] for key in keys} for row in self.cocoDt.dataset['annotations']]
        fast = hotcoco.COCOeval(truth, truth.load_res(rows), self.params.iouType)
        self.params.maxDets = sorted(self.params.maxDets)
        for name in ('imgIds', 'catIds', 'maxDets', 'iouThrs'):
            setattr(fast.params, name, list(getattr(self.params, name)))
        fast.evaluate()
        fast.accumulate()
        self.eval = fast.eval

    def accumulate(self, p: Any = None) -> None:
        """Nothing is left to accumulate."""
