"""Predictions written by `--out` of a test."""

from collections.abc import Sequence
from typing import Any

from mmengine.evaluator import DumpResults
from mmengine.fileio import dump
from mmengine.logging import print_log

from mmeffvit.utils.files import atomic_output


class AtomicDump(DumpResults):
    """Predictions in a pickle, written atomically."""

    def compute_metrics(self, results: list) -> dict:
        with atomic_output(self.out_file_path) as partial:
            dump(results, partial)
        print_log(f'predictions: {self.out_file_path}', logger='current')
        return {}


class DumpLabelMaps(AtomicDump):
    """Dump label maps, predicted and true, without the scores of every class and pixel.

    The scores are a hundred times larger: 118 MB for one image of ADE20K.
    """

    def process(self, data_batch: Any, predictions: Sequence[dict]) -> None:
        kept = [{k: v for k, v in sample.items() if k != 'seg_logits'} for sample in predictions]
        super().process(data_batch, kept)


def dump_results(scope: str, out: str) -> DumpResults:
    """The metric that dumps predictions to ``out``, with encoded masks for mmdet."""
    if scope == 'mmseg':
        return DumpLabelMaps(out_file_path=out)
    if scope == 'mmpretrain':
        return AtomicDump(out_file_path=out)
    from mmdet.evaluation import DumpDetResults

    class DumpDetections(AtomicDump, DumpDetResults):
        pass

    return DumpDetections(out_file_path=out)
