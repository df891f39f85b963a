"""A backbone that fails in one process only, while the others wait for it in a collective."""

from mmengine.dist import all_reduce, get_rank
from mmengine.registry import MODELS
from torch import Tensor

from mmeffvit.models import SwiftFormer


@MODELS.register_module()
class FailsInOneProcess(SwiftFormer):
    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        if get_rank() == 1:
            raise RuntimeError('fails in one process')
        all_reduce(images.mean())
        return super().forward(images)
