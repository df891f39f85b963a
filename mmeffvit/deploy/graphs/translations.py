"""ONNX translations of our operators, for the exporter."""

from collections.abc import Callable

import torch

from .deformable_attention import onnx_sample_levels
from .ops import onnx_nms_mask
from .roi_align import onnx_multi_level_roi_align

TRANSLATIONS: dict[Callable, Callable] = {
    torch.ops.mmeffvit.nms_mask.default: onnx_nms_mask,
    torch.ops.mmeffvit.multi_level_roi_align.default: onnx_multi_level_roi_align,
    torch.ops.mmeffvit.sample_levels.default: onnx_sample_levels,
}
