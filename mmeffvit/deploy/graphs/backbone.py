"""The export graph of a backbone with its normalization, from an image to maps."""

from torch import Tensor, nn

from .base import Graph, Preprocessing


class BackboneGraph(Graph):
    """The maps of a backbone.

    Args:
        backbone: A backbone of ours, not fused.
        preprocessing: Preprocessing of the image; by default that of the released weights.

    Shape:
        images (B, 3, H, W) -> maps (B, C, H', W'), named after their strides, and their stages
        where several have the same.
    """

    task = 'features'

    def __init__(self, backbone: nn.Module, preprocessing: Preprocessing | None = None) -> None:
        if preprocessing is None:
            preprocessing = Preprocessing(mean=backbone.input_mean, std=backbone.input_std)
        super().__init__(backbone, preprocessing)
        strides = backbone.strides
        self.output_names = tuple(
            f'stride_{stride}' + (f'_stage_{index}' if strides.count(stride) > 1 else '')
            for index, stride in zip(backbone.out_indices, strides, strict=True)
        )

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return self.network(x)
