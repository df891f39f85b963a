"""The export graph of a backbone with its normalization, from an image to maps."""

from torch import Tensor, nn

from .base import Graph, Preprocessing


class BackboneGraph(Graph):
    """The maps of a backbone.

    Args:
        backbone: A backbone of ours, not fused.
        preprocessing: Preprocessing of the image; by default that of the released weights.

    Shape:
        images (B, 3, H, W) -> maps (B, C, H', W'), named after their strides, or after their
        stages if some share a stride.
    """

    task = 'features'

    def __init__(self, backbone: nn.Module, preprocessing: Preprocessing | None = None) -> None:
        if preprocessing is None:
            preprocessing = Preprocessing(mean=backbone.input_mean, std=backbone.input_std)
        super().__init__(backbone, preprocessing)
        strides = backbone.strides
        distinct = len(set(strides)) == len(strides)
        what, numbers = ('stride', strides) if distinct else ('stage', backbone.out_indices)
        self.output_names = tuple(f'{what}_{number}' for number in numbers)

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return self.network(x)
