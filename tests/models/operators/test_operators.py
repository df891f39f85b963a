"""The operators return what a compiled mmcv does, in any precision; missing ones are named."""

import sys

import mmcv.ops as ops
import pytest
import torch
import torch.nn.functional as F
from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction
from torch import Tensor
from torchvision.ops import box_iou, sigmoid_focal_loss

from mmeffvit.models.operators import backend, functions
from tests.models.operators.cases import CASES, assert_recorded, boxes_and_scores, regions, wave

PRECISIONS = {torch.float16: 1e-2, torch.bfloat16: 5e-2}  # about 8 and 6 units in the last place


def align(maps: Tensor, rois: Tensor) -> Tensor:
    return ops.roi_align(maps, rois, (3, 2), 0.5, 0, 'avg', True)


def attend(value: Tensor, location: Tensor, weight: Tensor) -> Tensor:
    shapes = torch.tensor([[4, 5], [2, 3]])
    begin = torch.tensor([0, 20])
    return MultiScaleDeformableAttnFunction.apply(value, shapes, begin, location, weight, 64)


def attention_inputs() -> list[Tensor]:
    return [
        wave(1, 26, 2, 2),
        0.5 + 0.4 * wave(1, 3, 2, 2, 2, 2, step=1.9),
        wave(1, 3, 2, 2, 2, step=0.53).sigmoid(),
    ]


def convolution_inputs() -> list[Tensor]:
    """Input, offset, mask, weight and bias; offsets are no whole pixels, where slopes jump."""
    offset = 0.3 + 0.2 * wave(1, 18, 4, 5, step=1.7)
    mask = wave(1, 9, 4, 5, step=0.9).sigmoid()
    return [wave(1, 2, 4, 5), offset, mask, wave(2, 2, 3, 3), wave(2, step=2.1)]


def deform(x: Tensor, offset: Tensor, weight: Tensor) -> Tensor:
    return ops.deform_conv2d(x, offset, weight, 1, 1)


def modulated(*inputs: Tensor) -> Tensor:
    return ops.modulated_deform_conv2d(*inputs, 1, 1)


DIFFERENTIABLE = {
    'roi align': (lambda x: align(x, regions().to(x)), [wave(2, 2, 7, 8)]),
    'deformable convolution': (deform, [convolution_inputs()[at] for at in (0, 1, 3)]),
    'modulated convolution': (modulated, convolution_inputs()),
    'deformable attention': (attend, attention_inputs()),
}


@pytest.mark.parametrize('name', CASES)
def test_results_and_gradients_are_those_of_a_compiled_mmcv(name, implementation):
    assert_recorded(CASES[name](), name)


@pytest.mark.parametrize('name', DIFFERENTIABLE)
def test_gradients_are_differences_of_outputs(name, implementation):
    function, inputs = DIFFERENTIABLE[name]
    inputs = [x.double().requires_grad_() for x in inputs]
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize('dtype', PRECISIONS)
@pytest.mark.parametrize('name', DIFFERENTIABLE)
def test_half_precision_is_near_single_precision(name, dtype, implementation):
    function, inputs = DIFFERENTIABLE[name]
    results = []
    for kind in (dtype, torch.float32):
        # the same rounded inputs, so that the operators alone differ
        leaves = [x.to(dtype).to(kind).requires_grad_() for x in inputs]
        output = function(*leaves)
        assert output.dtype == kind
        output.sum().backward()
        results.append([output.detach(), *(leaf.grad for leaf in leaves)])
    for half, single in zip(*results, strict=True):
        tolerance = PRECISIONS[dtype]
        torch.testing.assert_close(half.float(), single, atol=tolerance, rtol=tolerance)


def test_the_first_elements_of_offsets_of_a_finer_level_count(implementation):
    x, offset, mask, weight, bias = convolution_inputs()
    finer = [
        torch.cat([each.flatten(1), wave(1, 3 * each.numel())], dim=1).view(1, -1, 8, 10)
        for each in (offset, mask)
    ]
    for each in finer:
        each.requires_grad_()
    found = modulated(x, *finer, weight, bias)
    assert torch.equal(found, modulated(x, offset, mask, weight, bias))
    found.sum().backward()
    for each, like in zip(finer, (offset, mask), strict=True):
        assert each.grad.flatten()[: like.numel()].any()
        assert not each.grad.flatten()[like.numel() :].any()


@pytest.mark.parametrize('dtype', PRECISIONS)
def test_operators_run_under_autocast(dtype, implementation):
    model = torch.nn.Conv2d(2, 2, 1)
    expected = align(model(wave(2, 2, 7, 8)), regions())
    with torch.autocast('cpu', dtype=dtype):
        maps = model(wave(2, 2, 7, 8))
        assert maps.dtype == dtype
        pooled = align(maps, regions().to(maps))
        convolved = ops.DeformConv2d(2, 3, 3, padding=1)(maps, torch.zeros(2, 18, 7, 8))
    pooled.sum().backward()
    assert model.weight.grad.isfinite().all()
    torch.testing.assert_close(pooled.float(), expected, atol=0.02, rtol=0.02)
    assert convolved.isfinite().all()


@pytest.mark.parametrize('dtype', [torch.float32, *PRECISIONS])
def test_nms_keeps_the_same_boxes_in_any_precision(dtype, implementation):
    boxes, scores = boxes_and_scores()
    rounded = boxes.to(dtype), scores.to(dtype)
    kept = ops.nms(*rounded, 0.4)[1]
    assert kept.tolist() == ops.nms(*(x.float() for x in rounded), 0.4)[1].tolist()
    # scores that become equal are ordered by index
    assert kept.tolist() == sorted(kept.tolist(), key=lambda at: (-rounded[1][at].item(), at))


@pytest.mark.parametrize('threshold', [0, 0.3, 0.7, 1])
@pytest.mark.parametrize('offset', [0, 1])
def test_nms_keeps_boxes_that_no_better_kept_box_overlaps(threshold, offset, implementation):
    boxes, scores = boxes_and_scores()
    larger = boxes + torch.tensor([0, 0, offset, offset])
    overlaps = box_iou(larger, larger).nan_to_num()  # of boxes without an area
    kept = []
    for at in scores.argsort(descending=True).tolist():
        if (overlaps[at, kept] <= threshold).all():
            kept.append(at)
    assert ops.nms(boxes, scores, threshold, offset)[1].tolist() == kept


def test_without_boxes_results_are_empty(implementation):
    boxes, scores = torch.zeros(0, 4), torch.zeros(0)
    for kept, index in (
        ops.nms(boxes, scores, 0.5),
        ops.nms(boxes, scores, 0.0),
        ops.nms(boxes, scores, 0.5, offset=1),
        ops.soft_nms(boxes, scores),
        ops.soft_nms(boxes, scores, method='gaussian'),
    ):
        assert kept.shape == (0, 5)
        assert index.shape == (0,)
        assert index.dtype == torch.long
    assert ops.nms_match(torch.zeros(0, 5), 0.5) == []
    maps = wave(2, 3, 6, 8).requires_grad_()
    pooled = align(maps, torch.zeros(0, 5))
    assert pooled.shape == (0, 3, 3, 2)
    pooled.sum().backward()
    assert not maps.grad.any()


@pytest.mark.usefixtures('_operators')
@pytest.mark.parametrize('gamma', [2.0, 1.5])
@pytest.mark.parametrize('weighted', [False, True])
def test_sigmoid_focal_loss_is_its_equation(weighted, gamma):
    logits, target = 4 * wave(6, 3).double(), torch.tensor([0, 2, 1, 3, 3, 0])  # 3: background
    weight = torch.tensor([0.5, 2.0, 1.0]).double() if weighted else None
    is_label = F.one_hot(target, 4)[:, :3].double()
    expected = sigmoid_focal_loss(logits.requires_grad_(), is_label, 0.3, gamma)
    if weighted:
        expected = expected * torch.cat([weight, torch.ones(1)])[target][:, None]
    expected = expected.sum() / len(logits)  # mmcv divides the sum by the number of rows
    (expected_grad,) = torch.autograd.grad(expected, logits)
    found = ops.sigmoid_focal_loss(logits, target, gamma, 0.3, weight, 'mean')
    (grad,) = torch.autograd.grad(found, logits)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(grad, expected_grad)


@pytest.mark.usefixtures('_operators')
@pytest.mark.parametrize('dtype', PRECISIONS)
def test_focal_loss_is_finite_for_sure_predictions(dtype):
    logits = torch.tensor([[60.0, -60.0], [-60.0, 60.0]], dtype=dtype).requires_grad_()
    value = ops.sigmoid_focal_loss(logits, torch.tensor([0, 0]))
    value.backward()
    assert value.dtype == dtype
    assert value.isfinite()
    assert logits.grad.isfinite().all()


def test_maps_in_channels_last_give_the_same(implementation):
    maps = wave(2, 3, 6, 8)
    expected = align(maps, regions())
    last = maps.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(align(last, regions()), expected, atol=1e-6, rtol=0)


@pytest.mark.usefixtures('_operators')
@pytest.mark.parametrize(
    ('call', 'name'),
    [
        (lambda: ops.RoIPool(2)(wave(1, 1, 4, 4), torch.zeros(1, 5)), 'roi_pool_forward'),
        (lambda: ops.nms_rotated(wave(3, 5), wave(3), 0.5), 'nms_rotated'),
        (lambda: ops.roi_align(wave(1, 1, 4, 4), torch.zeros(1, 5), 2, 1, 0, 'max'), 'roi_align'),
    ],
)
def test_a_missing_operator_is_named_with_what_provides_it(call, name, monkeypatch):
    monkeypatch.setattr(sys.modules['mmcv.ops.roi_pool'], 'ext_module', functions)
    with pytest.raises(NotImplementedError, match=f'{name!r}.*install a compiled mmcv') as error:
        call()
    assert '\n' not in str(error.value)


def test_torchvision_that_does_not_load_is_reported_once_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, 'torchvision', None)  # its import fails
    backend.devices.cache_clear()
    try:
        with pytest.warns(UserWarning, match='torchvision does not load with torch') as warned:
            loaded = [backend.has_torchvision(torch.zeros(1)) for _ in range(2)]
        assert len(warned) == 1
        assert loaded == [False, False]
    finally:
        backend.devices.cache_clear()
