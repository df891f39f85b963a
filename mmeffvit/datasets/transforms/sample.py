"""Predictions as labels, each with the probability of being right."""

import numpy as np
from mmcv.transforms import BaseTransform

from mmeffvit.registry import TRANSFORMS


@TRANSFORMS.register_module()
class SampleByScore(BaseTransform):
    """Keep an instance with a probability equal to its score, drawn anew for every read.

    Losses that are linear in their targets, such as cross-entropy, then equal in the mean those of
    soft labels: ``E[BCE(x, y)] = BCE(x, s)`` for y = 1 with probability s. Any head and loss can be
    trained so. It comes before annotations are loaded.

    Args:
        sure: Score from which an instance is always kept, in [0, 1].

    Raises:
        ValueError: If ``sure`` is out of range.
    """

    def __init__(self, *, sure: float = 0.7) -> None:
        super().__init__()
        if not 0 <= sure <= 1:
            raise ValueError(f'sure is {sure}; give a score from 0 to 1')
        self.sure = sure

    def transform(self, results: dict) -> dict:
        results['instances'] = [
            instance
            for instance in results['instances']
            if (score := instance.get('score', 1.0)) >= self.sure or np.random.rand() < score
        ]
        return results

    def __repr__(self) -> str:
        return f'{type(self).__name__}(sure={self.sure})'
