"""SSDLite: its levels, anchors, losses and predictions, against their definitions."""

import itertools
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from mmdet.registry import MODELS
from mmengine.config import ConfigDict
from mmengine.registry import init_default_scope
from mmengine.structures import InstanceData
from torchvision.ops import box_convert, box_iou, nms

from mmeffvit.models.detection import SSDLiteAnchorGenerator, SSDLiteHead, SSDLiteNeck

RATIOS = [[2, 3], [2, 3], [2, 3], [2, 3], [2, 3], [2]]
CELLS = [(20, 20), (10, 10), (5, 5), (3, 3), (2, 2), (1, 1)]  # of the levels at 320 x 320
ANCHORS = [6, 6, 6, 6, 6, 4]
NUM_CLASSES = 3
VARIANCES = torch.tensor([0.1, 0.1, 0.2, 0.2], dtype=torch.float64)


def make_anchors() -> SSDLiteAnchorGenerator:
    return SSDLiteAnchorGenerator(RATIOS, size_range=(0.1, 1.05))


def make_head(in_channels=(8, 6, 4, 4, 4, 2), feat_channels=(6, 6, 4, 4, 4, 2)) -> SSDLiteHead:
    init_default_scope('mmdet')
    return MODELS.build(
        ConfigDict(
            type='mmeffvit.SSDLiteHead',
            num_classes=NUM_CLASSES,
            in_channels=in_channels,
            feat_channels=feat_channels,
            anchor_generator=dict(
                type='mmeffvit.SSDLiteAnchorGenerator', ratios=RATIOS, size_range=[0.1, 1.05]
            ),
            bbox_coder=dict(
                type='DeltaXYWHBBoxCoder',
                target_means=[0.0, 0.0, 0.0, 0.0],
                target_stds=VARIANCES.tolist(),
            ),
            train_cfg=dict(
                assigner=dict(
                    type='MaxIoUAssigner',
                    pos_iou_thr=0.5,
                    neg_iou_thr=0.5,
                    min_pos_iou=0.0,
                    gt_max_assign_all=False,
                ),
                allowed_border=-1,
                pos_weight=-1,
                neg_pos_ratio=3,
                smoothl1_beta=1.0,
            ),
            test_cfg=dict(
                score_thr=0.01,
                nms_pre=400,
                nms=dict(type='nms', iou_threshold=0.5),
                max_per_img=200,
            ),
        )
    )


def naive_anchors(cells) -> torch.Tensor:
    """Center, width and height relative to the image, anchor by anchor."""
    anchors = []
    for k, ((height, width), ratios) in enumerate(zip(cells, RATIOS, strict=True)):
        size, following = (0.1 + (1.05 - 0.1) * j / 6 for j in (k, k + 1))
        for y, x in itertools.product(range(height), range(width)):
            shapes = [(size, size), (math.sqrt(size * following),) * 2]
            for ratio in ratios:
                long, short = size * math.sqrt(ratio), size / math.sqrt(ratio)
                shapes += [(long, short), (short, long)]
            anchors += [((x + 0.5) / width, (y + 0.5) / height, w, h) for w, h in shapes]
    return torch.tensor(anchors, dtype=torch.float64).clamp(0, 1)


to_corners = partial(box_convert, in_fmt='cxcywh', out_fmt='xyxy')


def random_outputs(num_images: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    scores, boxes = [], []
    for (height, width), anchors in zip(CELLS, ANCHORS, strict=True):
        scores.append(2 * torch.randn(num_images, anchors * (NUM_CLASSES + 1), height, width))
        boxes.append(0.5 * torch.randn(num_images, anchors * 4, height, width))
    return scores, boxes


def rows(levels: list[torch.Tensor], image: int, channels: int) -> torch.Tensor:
    """The outputs of a head for each anchor of an image, in float64."""
    anchors = []
    for level in levels:
        for y, x in itertools.product(range(level.shape[2]), range(level.shape[3])):
            anchors += level[image, :, y, x].split(channels)
    return torch.stack(anchors).double()


@pytest.mark.parametrize('cells', [CELLS, [(13, 19), (7, 10), (4, 5), (2, 3), (1, 2), (1, 1)]])
def test_anchors_are_those_of_the_definition_for_any_map(cells):
    anchors = torch.cat(make_anchors().grid_priors(cells))
    expected = to_corners(naive_anchors(cells))
    # float32 against float64, relative to the image
    assert torch.allclose(anchors.double(), expected, atol=1e-6, rtol=0)


def test_the_neck_reports_invalid_arguments():
    with pytest.raises(ValueError, match='one map or more'):
        SSDLiteNeck([])
    with pytest.raises(ValueError, match='got 1 feature maps'):
        SSDLiteNeck([8, 12])([torch.zeros(1, 8, 4, 4)])


@pytest.mark.parametrize('key', ['in_channels', 'feat_channels'])
def test_a_list_that_misses_a_level_is_named(key):
    with pytest.raises(ValueError, match='the anchors have 6 levels'):
        make_head(**{key: [8, 6, 4, 4, 4]})


def test_ratios_and_sizes_of_anchors_are_above_zero():
    for ratios, sizes in [((), (0.1, 1.0)), (((2, -3),), (0.1, 1.0)), (((2,),), (0.0, 1.0))]:
        with pytest.raises(ValueError, match='must be positive'):
            SSDLiteAnchorGenerator(ratios, sizes)


BOXES = [  # of two images, in pixels
    [
        [20.3, 31.7, 181.1, 223.9],
        [0.5, 0.4, 22.0, 21.0],  # no anchor has an IoU of 0.5
        [103.3, 92.1, 221.7, 203.9],
        [104.9, 91.4, 223.9, 202.9],  # its best anchor is also that of the box before
    ],
    [[12.7, 5.1, 306.2, 297.3]],
]
LABELS = [[0, 2, 1, 2], [1]]


def naive_losses(scores, boxes) -> tuple[float, float]:
    """Naive matching, hard negative mining and both losses."""
    anchors = naive_anchors(CELLS)
    corners = 320 * to_corners(anchors)
    box_loss = class_loss = 0.0
    num_positives = 0
    for image, labels in enumerate(LABELS):
        truth = torch.tensor(BOXES[image], dtype=torch.float64) / 320
        overlaps = box_iou(corners, 320 * truth)
        matched = [int(row.argmax()) if row.max() >= 0.5 else None for row in overlaps]
        for t in range(len(truth)):
            matched[int(overlaps[:, t].argmax())] = t
        log_probs = rows(scores, image, NUM_CLASSES + 1).log_softmax(dim=-1)
        deltas = rows(boxes, image, 4)
        positives = [i for i, t in enumerate(matched) if t is not None]
        num_positives += len(positives)
        for i in positives:
            target, anchor = truth[matched[i]], anchors[i]
            size = target[2:] - target[:2]
            offset = ((target[:2] + target[2:]) / 2 - anchor[:2]) / anchor[2:]
            wanted = torch.cat([offset, (size / anchor[2:]).log()]) / VARIANCES
            box_loss += float(F.smooth_l1_loss(deltas[i], wanted, reduction='sum', beta=1.0))
            class_loss -= float(log_probs[i, labels[matched[i]]])
        negatives = [-float(log_probs[i, -1]) for i, t in enumerate(matched) if t is None]
        class_loss += sum(sorted(negatives)[-3 * len(positives) :])
    return class_loss / num_positives, box_loss / num_positives


def test_losses_equal_naive_matching_and_mining():
    scores, boxes = random_outputs(num_images=2)
    instances = [
        InstanceData(bboxes=torch.tensor(truth), labels=torch.tensor(labels))
        for truth, labels in zip(BOXES, LABELS, strict=True)
    ]
    metas = [dict(batch_input_shape=(320, 320), img_shape=(320, 320), pad_shape=(320, 320))] * 2
    losses = make_head().loss_by_feat(scores, boxes, instances, metas)
    classes, positions = naive_losses(scores, boxes)
    # float32 sums of some hundred terms
    assert float(sum(losses['loss_cls'])) == pytest.approx(classes, rel=1e-5)
    assert float(sum(losses['loss_bbox'])) == pytest.approx(positions, rel=1e-5)


def naive_instances(scores, boxes, test_cfg, original) -> list[tuple]:
    """Top boxes per class, greedy NMS per class, best boxes overall, then clipping."""
    anchors = naive_anchors(CELLS)
    deltas = rows(boxes, 0, 4) * VARIANCES
    sizes = anchors[:, 2:] * deltas[:, 2:].exp()
    found = to_corners(torch.cat([anchors[:, :2] + deltas[:, :2] * anchors[:, 2:], sizes], dim=1))
    found *= torch.tensor([original[1], original[0]] * 2)
    probs = rows(scores, 0, NUM_CLASSES + 1).softmax(dim=-1)
    kept = []
    for label, scores in enumerate(probs.T[:NUM_CLASSES]):
        order = scores.argsort(descending=True)[: test_cfg.nms_pre]
        order = order[scores[order] > test_cfg.score_thr]
        survivors = order[nms(found[order], scores[order], test_cfg.nms.iou_threshold)]
        kept += [(float(scores[i]), label, found[i]) for i in survivors]
    kept.sort(key=lambda instance: -instance[0])
    limits = torch.tensor([original[1], original[0]] * 2)
    zero = torch.zeros(())
    return [(s, n, box.clamp(zero, limits)) for s, n, box in kept[: test_cfg.max_per_img]]


@pytest.mark.parametrize(
    ('nms_pre', 'score_thr', 'max_per_img', 'num_found'),
    [
        (80, 0.01, 1000, range(3, 240)),  # some are suppressed
        (20, 0.01, 200, range(3, 61)),
        (30, 0.01, 10, range(10, 11)),
        (100, 0.985, 1000, range(3, 90)),  # fewer remain above the threshold
    ],
)
def test_predictions_are_the_best_of_each_class_over_all_levels(
    nms_pre, score_thr, max_per_img, num_found
):
    head = make_head()
    head.test_cfg.update(nms_pre=nms_pre, max_per_img=max_per_img, score_thr=score_thr)
    scores, boxes = random_outputs(num_images=1)
    network, original = (320, 320), (240, 480)
    meta = dict(
        batch_input_shape=network,
        img_shape=network,
        ori_shape=original,
        scale_factor=(2 / 3, 4 / 3),
    )
    (found,) = head.predict_by_feat(scores, boxes, batch_img_metas=[meta], rescale=True)
    expected = naive_instances(scores, boxes, head.test_cfg, original)
    assert len(found) == len(expected)
    assert len(found) in num_found
    assert found.labels.tolist() == [label for _, label, _ in expected]
    assert torch.allclose(
        found.scores, torch.tensor([score for score, _, _ in expected]), atol=1e-5
    )
    # float32 at coordinates of some hundred pixels
    assert torch.allclose(
        found.bboxes, torch.stack([box for *_, box in expected]).float(), atol=1e-3
    )


def test_anchors_cover_the_input_of_the_network_at_any_size():
    head = make_head()
    cells = [(13, 19), (7, 10), (4, 5), (2, 3), (1, 2), (1, 1)]
    meta = dict(batch_input_shape=(200, 300), pad_shape=(200, 290))
    (anchors,), (valid,) = head.get_anchors(cells, [meta], device='cpu')
    expected = to_corners(naive_anchors(cells)) * torch.tensor([300, 200, 300, 200])
    assert torch.allclose(torch.cat(anchors).double(), expected, atol=1e-3)
    assert torch.cat(valid).all()
