"""Post-processing with fixed shapes, compared with mmcv and torch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmengine.config import ConfigDict
from torch import nn
from torch.export import Dim

from mmeffvit.deploy.compare import Limits, batch, compare_objects, make_batches, match
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.graphs import check_test_cfg, make_graph, ops
from mmeffvit.deploy.graphs.any_size import AnySizeAdaptiveAvgPool2d, AnySizeUpsample
from mmeffvit.deploy.graphs.dense import rows
from mmeffvit.deploy.runtime.predictor import paste_mask
from mmeffvit.errors import UserError
from tests.deploy import models


class Rows(nn.Module):
    """Predictions of a head on a map whose sides are twice those of a coarser one."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 24, 3, 32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rows(F.pixel_shuffle(torch.cat([self.head(x)] * 4, dim=1), 2), 4)


def test_the_coordinates_of_a_box_are_four_at_any_image_size():
    """As an expression of the image size, OpenVINO's NMS would reject them."""
    axes = dict.fromkeys((0, 2, 3), Dim.DYNAMIC)
    program = torch.export.export(Rows(), (torch.rand(2, 3, 96, 128),), dynamic_shapes=(axes,))
    (result,) = next(node for node in program.graph.nodes if node.op == 'output').args[0]
    shape = result.meta['val'].shape
    assert isinstance(shape[2], int)
    assert shape[2] == 4
    assert not isinstance(shape[1], int)


@pytest.mark.parametrize('batch', [1, 2])
@pytest.mark.parametrize('name', ['ssdlite_mobilevitv2_050', 'rtmdet_swiftformer_xs'])
def test_without_unlikely_pairs_the_same_is_found(name, batch):
    graph, size = make_graph(models.tiny(name)).eval(), (96, 128)
    with torch.no_grad():
        x = graph.normalize(torch.from_numpy(models.smooth_image(size, batch=batch)))
        scores = torch.cat([scores.flatten() for scores, *_ in graph.levels(x)])
        for share in (0.0, 0.9, 1.0):  # of unlikely pairs
            limit = scores.quantile(share).item()
            graph.test_cfg = ConfigDict({**graph.test_cfg, 'score_thr': limit, 'nms_pre': 30_000})
            found = graph.results(x, size)
            expected = graph.suppress(*graph.candidates(x, size), size)
            assert (found[1] > 0).any() == (share < 1)
            assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        (dict(nms=dict(type='soft_nms')), "model.test_cfg.nms.type is 'soft_nms'"),
        (dict(rpn=dict(nms=dict(type='soft_nms'))), "model.test_cfg.rpn.nms.type is 'soft_nms'"),
        (dict(rcnn=dict(max_per_img=-1)), r'model.test_cfg.rcnn.max_per_img is -1; give 1 or more'),
        (dict(nms=dict(iou_threshold=0.5, max_num=5)), r'model.test_cfg.nms is .*max_num.*; only'),
        (dict(nms=dict(type='nms', iou_thr=0.5)), r'model.test_cfg.nms is .*iou_thr'),
        (dict(nms_pre=-1), r'model.test_cfg.nms_pre is -1; give 1 or more'),
        (dict(rpn=dict(nms=dict(iou_threshold=0.5))), r'model.test_cfg.rpn.nms_pre is -1'),
        (dict(min_bbox_size=12), r'model.test_cfg.min_bbox_size is 12; give 0'),
    ],
)
def test_settings_that_no_graph_has_are_rejected(settings, message):
    nms = dict(type='nms', iou_threshold=0.5)
    known = dict(max_per_img=100, nms=nms, nms_pre=9, min_bbox_size=0)
    check_test_cfg(known | dict(rpn=known | dict(min_bbox_size=5), rcnn=dict(nms=nms)))
    with pytest.raises(UserError, match=message):
        check_test_cfg(known | settings)


def test_masks_are_compared_above_the_threshold_of_the_config():
    cells = np.random.default_rng(0).random((1, 8, 8))
    objects = dict(boxes=np.array([[0.0, 0, 32, 32]]), scores=np.ones(1), labels=np.zeros(1))
    expected = {**objects, 'masks': paste_mask(cells[0], objects['boxes'][0], (32, 32), 0.3)[None]}
    for threshold, agrees in ((0.3, True), (0.5, False)):
        found = compare_objects(
            expected, {**objects, 'masks': cells}, Limits(mask_threshold=threshold)
        )
        assert all(each.agrees for each in found) == agrees


def test_unused_entries_are_empty():
    scores = torch.tensor([[0.5, ops.EMPTY, 0.7]])
    boxes, best, labels = ops.best_objects(
        torch.ones(1, 3, 4), scores, torch.tensor([[4, 5, 6]]), 5
    )
    assert best.tolist() == [[pytest.approx(0.7), 0.5, 0, 0, 0]]
    assert labels.tolist() == [[6, 4, -1, -1, -1]]
    assert boxes[0, 2:].abs().max() == 0


def test_empty_boxes_are_dropped_where_mmdet_drops_them():
    boxes = torch.tensor([[[0.0, 0.0, 5.0, 0.0], [0.0, 0.0, 5.0, 1.0]]])
    scores = torch.tensor([[0.9, 0.8]])
    assert ops.drop_small(boxes, scores, 0).tolist()[0][0] == ops.EMPTY
    assert torch.equal(ops.drop_small(boxes, scores, -1), scores)


@pytest.mark.parametrize('cells', [1, 2, 3, 6, (2, 5)])
@pytest.mark.parametrize('size', [(12, 18), (7, 11), (5, 4)])
def test_pools_as_matrix_products_equal_adaptive_pools(cells, size):
    x = torch.randn(2, 4, *size)
    expected = F.adaptive_avg_pool2d(x, cells)
    torch.testing.assert_close(AnySizeAdaptiveAvgPool2d(nn.AdaptiveAvgPool2d(cells))(x), expected)


def test_upsampling_by_a_fraction_is_rejected():
    with pytest.raises(ValueError, match='only integers'):
        AnySizeUpsample(nn.Upsample(scale_factor=1.5))


def objects(scores: list[float], shift: float = 0.0) -> dict[str, np.ndarray]:
    left = np.arange(len(scores)) * 100.0 + shift
    boxes = np.stack([left, left * 0, left + 50, left * 0 + 50], axis=1)
    return dict(boxes=boxes, scores=np.array(scores), labels=np.zeros(len(scores), int))


def test_objects_at_the_score_limit_may_be_missing_others_may_not():
    assert match(objects([0.9, 0.5, 0.2]), objects([0.9, 0.5])) == ([(0, 0), (1, 1)], 0)
    pairs, alone = match(
        objects([0.9, 0.5, 0.2]), {k: v[1:] for k, v in objects([0.9, 0.5, 0.2]).items()}
    )
    assert (len(pairs), alone) == (2, 1)
    assert match(objects([0.9]), objects([])) == ([], 1)
    # a list that is shorter for another reason
    assert match(objects([0.9, 0.8, 0.7, 0.6]), objects([0.9, 0.8])) == ([(0, 0), (1, 1)], 1)


def test_batches_for_comparison_have_two_shapes_and_two_sizes_unless_fixed():
    image = np.zeros((100, 90, 3), np.uint8)
    assert [b.shape for b in make_batches(image, ExportOptions())] == [
        (1, 3, 100, 90), (2, 3, 51, 61)
    ]  # fmt: skip
    fixed = make_batches(image, ExportOptions(shape=(64, 64), batch=3))
    assert [b.shape for b in fixed] == [(3, 3, 64, 64)]
    open_batch = make_batches(image, ExportOptions(shape=(64, 64)))
    assert [b.shape[0] for b in open_batch] == [1, 2]


def test_every_second_image_of_a_batch_is_mirrored():
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    images = batch(image, (2, 3), 2)
    assert np.array_equal(images[0], images[1][..., ::-1])


def random_boxes(number: int, images: int = 2) -> torch.Tensor:
    corners = torch.rand(images, number, 2) * 60
    return torch.cat([corners, corners + 5 + torch.rand(images, number, 2) * 40], dim=-1)


def test_nms_within_classes_keeps_what_mmcv_keeps():
    from mmcv.ops import batched_nms

    boxes, scores = random_boxes(80), torch.rand(2, 80)
    labels = torch.randint(3, (2, 80))
    scores[:, ::7] = ops.EMPTY
    nms = dict(type='nms', iou_threshold=0.4)
    found = ops.best_objects(boxes, ops.batched_nms(boxes, scores, labels, nms, 10), labels, 10)
    for i in range(2):
        valid = scores[i] > 0
        expected, kept = batched_nms(boxes[i][valid], scores[i][valid], labels[i][valid], nms)
        torch.testing.assert_close(found[0][i], expected[:10, :4])
        torch.testing.assert_close(found[1][i], expected[:10, 4])
        assert torch.equal(found[2][i], labels[i][valid][kept][:10])


def test_masks_are_pasted_as_mask_rcnn_does():
    from mmdet.models.roi_heads.mask_heads.fcn_mask_head import _do_paste_mask

    mask = torch.rand(3, 1, 28, 28)
    boxes = torch.tensor([[10.3, 5.7, 60.1, 40.9], [-8.0, -3.0, 30.0, 90.0], [2.0, 2.0, 4.5, 3.2]])
    expected, _ = _do_paste_mask(mask, boxes, 64, 80, skip_empty=False)
    for i in range(3):
        ours = paste_mask(mask[i, 0].numpy(), boxes[i].numpy(), (64, 80))
        sure = (expected[i] - 0.5).abs().numpy() > 1e-4
        assert np.array_equal(ours[sure], (expected[i] >= 0.5).numpy()[sure])
