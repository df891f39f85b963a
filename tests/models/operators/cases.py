"""Calls of mmcv's operators on small inputs, compared with what a compiled mmcv returned.

``python -m tests.models.operators.cases`` records the results; it needs a compiled mmcv.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from mmcv.ops import (
    batched_nms,
    deform_conv2d,
    modulated_deform_conv2d,
    nms,
    nms_match,
    roi_align,
    soft_nms,
)
from mmcv.ops.multi_scale_deform_attn import (
    MultiScaleDeformableAttnFunction,
    multi_scale_deformable_attn_pytorch,
)
from torch import Tensor

RECORDED = Path(__file__).with_name('compiled.json')


def wave(*shape: int, step: float = 0.7) -> Tensor:
    """Numbers in [-1, 1] that no version of torch changes."""
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64) * step + step).sin().float().view(shape)


def boxes_and_scores() -> tuple[Tensor, Tensor]:
    """40 boxes in groups of overlapping ones, two of them without an area."""
    corner = 20 * wave(40, 2, step=0.31) + 30 * wave(40, 2, step=2.9).round()
    size = 14 + 6 * wave(40, 2, step=1.3)
    size[[3, 7]] = 0
    return torch.cat([corner, corner + size], dim=1), 0.5 + 0.5 * wave(40, step=0.011)


def regions() -> Tensor:
    """Regions of two images: inside, across the border, outside, without an area."""
    return torch.tensor(
        [
            [0, 4, 3, 14, 11],
            [1, 0, 0, 15, 13],
            [1, -5, -7, 5, 8.5],
            [0, 9.3, 6.1, 30, 24],
            [1, 90, 90, 99, 99],
            [0, 8, 8, 8, 8],
        ]
    )


def differentiate(function: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    """Return the output and the gradients of a weighted sum of it."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    output = function(*leaves)
    output.backward(wave(*output.shape, step=0.37).to(output))
    return [output.detach(), *(leaf.grad for leaf in leaves)]


def run_nms(offset: int = 0, **options: float) -> list[Tensor]:
    return list(nms(*boxes_and_scores(), 0.4, offset=offset, **options))


def run_batched_nms(**config: object) -> list[Tensor]:
    boxes, scores = boxes_and_scores()
    classes = torch.arange(len(boxes), device=boxes.device) % 3
    return list(batched_nms(boxes, scores, classes, dict(iou_threshold=0.4, **config)))


def run_soft_nms(**options: object) -> list[Tensor]:
    # boxes without an area have no IoU with each other: mmcv lets their scores become NaN
    boxes, scores = (values[8:28] for values in boxes_and_scores())
    return list(soft_nms(boxes, scores, **options))


def run_nms_match() -> list[Tensor]:
    boxes, scores = boxes_and_scores()
    return nms_match(torch.cat([boxes, scores[:, None]], dim=1), 0.3)


def run_roi_align(
    size: tuple[int, int], ratio: int, aligned: bool, scale: float = 0.5
) -> list[Tensor]:
    def align(maps: Tensor) -> Tensor:
        return roi_align(maps, regions(), size, scale, ratio, 'avg', aligned)

    return differentiate(align, wave(2, 2, 7, 8))


def run_deform_conv(groups: int = 1, deform_groups: int = 1, stride: int = 1) -> list[Tensor]:
    size = (4 - 1) // stride + 1, (5 - 1) // stride + 1
    offset = 2 * wave(1, deform_groups * 2 * 3 * 3, *size, step=1.7)

    def convolve(x: Tensor, offset: Tensor, weight: Tensor) -> Tensor:
        return deform_conv2d(x, offset, weight, stride, 1, 1, groups, deform_groups)

    return differentiate(convolve, wave(1, 4, 4, 5), offset, wave(4, 4 // groups, 3, 3))


def run_modulated_conv(bias: bool = True, groups: int = 1, deform_groups: int = 1) -> list[Tensor]:
    offset = 2 * wave(1, deform_groups * 2 * 3 * 2, 3, 6, step=1.7)
    mask = wave(1, deform_groups * 3 * 2, 3, 6, step=0.9).sigmoid()
    inputs = [wave(1, 4, 5, 3), offset, mask, wave(2, 4 // groups, 3, 2)]
    if bias:
        inputs.append(wave(2, step=2.1))

    def convolve(*tensors: Tensor) -> Tensor:
        x, offset, mask, weight, *bias = tensors
        bias = bias[0] if bias else None
        where = (1, (1, 2), (2, 1))
        return modulated_deform_conv2d(x, offset, mask, weight, bias, *where, groups, deform_groups)

    return differentiate(convolve, *inputs)


def run_deform_attention() -> list[Tensor]:
    """Sample two levels, also outside of them; without a GPU mmcv has no compiled form."""
    value = wave(2, 26, 2, 3)
    shapes = torch.tensor([[4, 5], [2, 3]], device=value.device)
    begin = torch.tensor([0, 20], device=value.device)
    location = 0.5 + 0.6 * wave(2, 5, 2, 2, 3, 2, step=1.9)
    weight = wave(2, 5, 2, 2, 3, step=0.53).flatten(3).softmax(-1).view(2, 5, 2, 2, 3)

    def attend(value: Tensor, location: Tensor, weight: Tensor) -> Tensor:
        if is_compiled():
            return multi_scale_deformable_attn_pytorch(value, shapes, location, weight)
        return MultiScaleDeformableAttnFunction.apply(value, shapes, begin, location, weight, 64)

    return differentiate(attend, value, location, weight)


def assert_recorded(results: list[Tensor], name: str, tolerance: float = 2e-6) -> None:
    """The results of a case are those of a compiled mmcv, which are rounded to six digits."""
    compiled = json.loads(RECORDED.read_text())[name]
    for result, recorded in zip(results, compiled, strict=True):
        found = torch.as_tensor(result).cpu().flatten()
        expected = torch.tensor(recorded, dtype=found.dtype)
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


def is_compiled() -> bool:
    """Whether the functions of a compiled mmcv are called."""
    module = sys.modules['mmcv.ops.nms'].ext_module
    return (module.__file__ or '').endswith('.so')


CASES: dict[str, Callable[[], list[Tensor]]] = {
    'nms': run_nms,
    'nms, offset 1': lambda: run_nms(offset=1),
    'nms, score threshold': lambda: run_nms(score_threshold=0.5, max_num=9),
    'batched nms': run_batched_nms,
    'batched nms, class-agnostic': lambda: run_batched_nms(class_agnostic=True),
    'batched nms, split': lambda: run_batched_nms(split_thr=10, max_num=12),
    'batched nms, soft': lambda: run_batched_nms(type='soft_nms', min_score=0.05),
    'soft nms, linear': run_soft_nms,
    'soft nms, naive': lambda: run_soft_nms(method='naive', offset=1),
    'soft nms, gaussian': lambda: run_soft_nms(method='gaussian', sigma=0.3, min_score=0.2),
    'nms match': run_nms_match,
    'roi align': lambda: run_roi_align((3, 2), ratio=0, aligned=True),
    'roi align, two samples': lambda: run_roi_align((2, 3), ratio=2, aligned=True),
    'roi align, not aligned': lambda: run_roi_align((2, 2), ratio=0, aligned=False),
    'roi align, full size': lambda: run_roi_align((2, 2), ratio=0, aligned=True, scale=1.0),
    'deformable convolution': run_deform_conv,
    'deformable convolution, groups': lambda: run_deform_conv(groups=2, deform_groups=2, stride=2),
    'modulated convolution': run_modulated_conv,
    'modulated convolution, groups': lambda: run_modulated_conv(
        bias=False, groups=2, deform_groups=2
    ),
    'deformable attention': run_deform_attention,
}


def record() -> None:
    """Write the results of a compiled mmcv."""
    assert is_compiled(), 'this mmcv is not compiled'
    results = {
        name: [[round(number, 6) for number in tensor.flatten().tolist()] for tensor in run()]
        for name, run in CASES.items()
    }
    RECORDED.write_text(json.dumps(results, separators=(',', ':')).replace('],"', '],\n"') + '\n')


if __name__ == '__main__':
    record()
