"""A backbone with its normalization: an image goes in, maps come out."""

from torch import Tensor, nn

from .base import Graph, Preprocessing


class BackboneGraph(Graph):
    """The maps of a backbone.

    Args:
        backbone: A backbone of ours, not fused.
        preprocessing: From the image to its input; by default what its released weights expect.

    Shape:
        images (B, 3, H, W) -> for every map (B, C, H', W'), named after its stride.
    """

    task = 'features'

    def __init__(self, backbone: nn.Module, preprocessing: Preprocessing | None = None) -> None:
        if preprocessing is None:
            preprocessing = Preprocessing(mean=backbone.input_mean, std=backbone.input_std)
        super().__init__(backbone, preprocessing)
        self.output_names = tuple(f'stride_{stride}' for stride in backbone.strides)

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        return self.network(x)
