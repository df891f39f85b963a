"""Base classes of export graphs, from unnormalized images to plain tensors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from mmeffvit.deploy.fusion import fuse
from mmeffvit.utils.modules import normalization

from .any_size import any_size


@dataclass(frozen=True)
class Preprocessing:
    """Preprocessing from an RGB image of 0 to 255 to the network's input."""

    mean: tuple[float, ...] = (0.0, 0.0, 0.0)  # in the channel order of the network's input
    std: tuple[float, ...] = (1.0, 1.0, 1.0)  # in the same order
    swap_channels: bool = False  # whether the network expects BGR
    size_divisor: int = 1  # pixels; sides are padded at the bottom and right to multiples of it
    pad_value: float = 0.0  # after normalization

    @classmethod
    def of(cls, preprocessor: nn.Module) -> 'Preprocessing':
        """Read the values of a data preprocessor of mmdet or mmseg.

        mmdet and mmseg load images as BGR: without channel conversion, the network gets BGR.

        Raises:
            ValueError: If it pads to a fixed size, which excludes other image sizes.
        """
        # mmseg pads at test time only if this is set
        test_cfg: Mapping[str, Any] = getattr(preprocessor, 'test_cfg', None) or {}
        if test_cfg.get('size') is not None:
            raise ValueError(
                f'the data preprocessor pads test images to {test_cfg["size"]}; export needs '
                'test_cfg=dict(size_divisor=...) or none'
            )
        mean, std, is_rgb = normalization(preprocessor)
        divisor = getattr(preprocessor, 'pad_size_divisor', None) or test_cfg.get('size_divisor')
        pad_value = getattr(preprocessor, 'pad_value', getattr(preprocessor, 'pad_val', 0))
        return cls(
            mean=tuple(mean.flatten().tolist()),
            std=tuple(std.flatten().tolist()),
            swap_channels=not is_rgb,
            size_divisor=int(divisor or 1),
            pad_value=float(pad_value),
        )

    def padded(self, size: tuple[int, int]) -> tuple[int, int]:
        """H and W of images of ``size`` after padding, the next multiples of the divisor."""
        divisor = self.size_divisor  # the dividend is positive: ONNX rounds quotients toward zero
        height, width = ((side + divisor - 1) // divisor * divisor for side in size)
        return height, width


class Normalize(nn.Module):
    """``(x - mean) / std`` per channel, then padding at the bottom and on the right.

    Shape:
        (B, 3, H, W), RGB from 0 to 255 -> (B, 3, H', W'), the next multiples of the divisor.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__()
        for name in ('mean', 'std'):
            value = torch.tensor(getattr(preprocessing, name)).view(1, -1, 1, 1)
            self.register_buffer(name, value, persistent=False)
        self.preprocessing = preprocessing

    def forward(self, images: Tensor) -> Tensor:
        settings = self.preprocessing
        x = images.flip(1) if settings.swap_channels else images
        if any(settings.mean):
            x = x - self.mean
        if any(value != 1 for value in settings.std):
            x = x / self.std
        if settings.size_divisor == 1:
            return x
        height, width = settings.padded((x.shape[2], x.shape[3]))
        padding = (0, width - x.shape[3], 0, height - x.shape[2])
        return F.pad(x, padding, value=settings.pad_value)


class Graph(nn.Module):
    """A model from the image to its results, which can be traced by ``torch.export``.

    Subclasses implement :meth:`results` with operators whose output shapes depend on input shapes
    only, apart from :func:`.ops.true_indices`.

    Args:
        network: A model of mmdet or mmseg, or a backbone of ours; a fused copy of it is exported.
        preprocessing: Preprocessing of the image; by default the model's.

    Shape:
        images (B, 3, H, W), float32, RGB from 0 to 255, sides of at least 32 pixels -> the outputs
        in the order of ``output_names``.

    Attributes:
        task: 'detection', 'instance segmentation', 'semantic segmentation', 'classification' or
            'features'.
        output_names: Names of the outputs.
    """

    task: str
    output_names: tuple[str, ...]

    def __init__(self, network: nn.Module, preprocessing: Preprocessing | None = None) -> None:
        super().__init__()
        self.network = any_size(fuse(network))
        self.normalize = Normalize(preprocessing or Preprocessing.of(network.data_preprocessor))

    @property
    def preprocessing(self) -> Preprocessing:
        return self.normalize.preprocessing

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        # sizes of a symbolic shape are used as numbers, and remain symbolic in the graph
        return self.results(self.normalize(images), (images.shape[2], images.shape[3]))

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        """The outputs for normalized images (B, 3, H', W'); ``size`` is H and W before padding."""
        raise NotImplementedError


def named(graph: nn.Module, values: Iterable[Tensor]) -> dict[str, NDArray]:
    """Outputs of a graph as arrays by name, also of one without its last steps."""
    return {name: v.cpu().numpy() for name, v in zip(graph.output_names, values, strict=True)}


class DetectionGraph(Graph):
    """A :class:`Graph` of a detector.

    Shape:
        images (B, 3, H, W) -> boxes (B, K, 4): left, top, right and bottom in pixels of the images;
        scores (B, K), descending; labels (B, K), int64. K is ``max_per_img`` of the config; entries
        without an object have box 0, score 0 and label -1.
    """

    task = 'detection'
    output_names = ('boxes', 'scores', 'labels')
