"""Graphs of models without boxes compute what the models do."""

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from mmseg.models import decode_heads
from torch import Tensor, nn

from mmeffvit.deploy.formats.onnx.write import DEFERRED
from mmeffvit.deploy.formats.openvino.open import core
from mmeffvit.deploy.fusion import fuse
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.plain import SegFormerFusion, classes_that_can_win
from mmeffvit.models.segmentation import SegformerHead
from tests.deploy import models
from tests.models.parity import randomized

SHAPES = ((1, 8, 8), (4, 17, 24), (6, 9, 12), (8, 5, 6))  # the first is not used


@pytest.mark.parametrize('norm', [dict(type='BN'), dict(type='GN', num_groups=2), None])
@pytest.mark.parametrize('align_corners', [False, True])
def test_maps_convolved_before_their_resize_give_the_logits_of_segformers_head(norm, align_corners):
    options = dict(
        in_channels=[4, 6, 8], in_index=[1, 2, 3], channels=10, num_classes=5, norm_cfg=norm,
        align_corners=align_corners,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = decode_heads.SegformerHead(**options)
    torch.manual_seed(0)
    ours = SegformerHead(**options)
    for head in (theirs, ours):  # from one seed
        torch.manual_seed(1)
        head.init_weights()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=0)
    theirs = randomized(theirs).double().eval()
    ours.double().eval().load_state_dict(theirs.state_dict())
    maps = [torch.randn(2, *shape, dtype=torch.double) for shape in SHAPES]
    expected = theirs(maps)
    assert expected.std() > 0.01
    torch.testing.assert_close(ours(maps), expected)
    for head in (theirs, ours):
        torch.testing.assert_close(SegFormerFusion(fuse(head))(maps), expected)


def like_trained(*shape: int) -> Tensor:
    """Logits with a class far above the others in each of four regions, and smooth noise."""
    batch, classes, height, width = shape
    draw = torch.Generator().manual_seed(0)
    regions = torch.randint(classes, (batch, 1, 2, 2), generator=draw)
    regions = regions.repeat_interleave(height // 2 + 1, 2).repeat_interleave(width // 2 + 1, 3)
    logits = torch.zeros(shape).scatter_(1, regions[:, :, :height, :width], 20.0)
    logits = F.avg_pool2d(logits, 3, 1, 1, count_include_pad=False)
    noise = torch.randn(batch, classes, height // 4 + 1, width // 4 + 1, generator=draw)
    return logits + F.interpolate(noise, (height, width), mode='bilinear')


def ties(*shape: int) -> Tensor:
    """Few different values, so that several classes have the largest one."""
    return (like_trained(*shape) / 2).round()


class LabelMap(nn.Module):
    """Logits (B, C, h, w) and an image (H, W) -> label maps (B, H, W): of few classes, of all."""

    def __init__(self, align_corners: bool) -> None:
        super().__init__()
        self.full = make_graph(models.tiny('segformer_swiftformer_xs_ade20k'))
        self.full.network.decode_head.align_corners = align_corners

    def forward(self, logits: Tensor, image: Tensor) -> tuple[Tensor, ...]:
        size = (image.shape[0], image.shape[1])
        return tuple(find(logits, size, size) for find in (self.full.label_map, self.full.resized))


@pytest.fixture(scope='module', params=[False, True], ids=['centers', 'corners'])
def label_maps(request, tmp_path_factory) -> dict:
    """The two label maps of logits, by PyTorch, ONNX Runtime and OpenVINO."""
    module, dynamic = LabelMap(request.param).eval(), torch.export.Dim.DYNAMIC
    example = (torch.randn(2, 40, 16, 24), torch.zeros(64, 96))
    axes = ({0: dynamic, 2: dynamic, 3: dynamic}, {0: dynamic, 1: dynamic})
    program = torch.export.export(module, example, dynamic_shapes=axes, **{DEFERRED: True})
    path = tmp_path_factory.mktemp('label_maps') / 'model.onnx'
    torch.onnx.export(program, (), dynamo=True, opset_version=20, verbose=False, optimize=False,
                      input_names=['logits', 'image']).save(path)  # fmt: skip
    session = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
    compiled = core().compile_model(str(path), 'CPU', {'INFERENCE_PRECISION_HINT': 'f32'})
    return {
        'PyTorch': lambda *values: [found.numpy() for found in module(*values)],
        'ONNX Runtime': lambda logits, image: session.run(
            None, dict(logits=logits.numpy(), image=image.numpy())
        ),
        'OpenVINO': lambda *values: list(compiled([value.numpy() for value in values]).values()),
    }


@pytest.mark.parametrize('size', [(61, 90, 16, 23), (17, 200, 3, 1), (12, 15, 16, 24)])
@pytest.mark.parametrize('make', [like_trained, torch.randn, ties, torch.zeros])
def test_a_label_map_of_the_classes_that_can_win_is_that_of_all_to_the_bit(label_maps, make, size):
    height, width, *cells = size
    logits = make(2, 40, *cells)
    assert len(classes_that_can_win(logits)) <= 9 or make is not like_trained
    for runtime, run in label_maps.items():
        few, every = run(logits, torch.zeros(height, width))
        assert few.shape == (2, height, width)
        assert (few == every).all(), runtime


@pytest.mark.parametrize('value', [torch.nan, torch.inf, -torch.inf])
def test_logits_that_are_not_finite_give_a_label_map(label_maps, value):
    logits = like_trained(1, 40, 16, 24)
    logits[:, 3, 4, 5] = value
    for run in label_maps.values():
        few, every = run(logits, torch.zeros(64, 96))
        assert (few[:, 32:] == every[:, 32:]).all()  # far from it
        assert 0 <= few.min() <= few.max() < 40
