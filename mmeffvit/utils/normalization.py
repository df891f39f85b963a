"""What the data preprocessors of mmdet, mmseg and mmpretrain do with the values of an image."""

import torch
from torch import Tensor, nn


def normalization(preprocessor: nn.Module) -> tuple[Tensor, Tensor, bool]:
    """Mean and deviation, (3, 1, 1), of a data preprocessor, and whether BGR becomes RGB."""
    mean = getattr(preprocessor, 'mean', torch.zeros(3, 1, 1))
    std = getattr(preprocessor, 'std', torch.ones(3, 1, 1))
    # in mmdet, mmseg and mmpretrain
    names = ('_channel_conversion', 'channel_conversion', 'to_rgb')
    return mean, std, any(getattr(preprocessor, name, False) for name in names)
