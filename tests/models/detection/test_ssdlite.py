"""SSDLite: its levels, anchors, losses and predictions, against their definitions."""

import itertools
from functools import partial
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from mmdet.registry import MODELS
from mmengine.config import ConfigDict
from mmengine.registry import init_default_scope
from mmengine.structures import InstanceData
from torchvision.ops import box_convert, box_iou

from mmeffvit.models.detection import SSDLiteHead
from tests.configs.models import load
from tests.released import cvnets

CELLS = [(20, 20), (10, 10), (5, 5), (3, 3), (2, 2), (1, 1)]  # of the levels at 320 x 320
ANCHORS = [6, 6, 6, 6, 6, 4]
NUM_CLASSES = 3
VARIANCES = torch.tensor([0.1, 0.1, 0.2, 0.2], dtype=torch.float64)


def make_head(in_channels=(8, 6, 4, 4, 4, 2), feat_channels=(6, 6, 4, 4, 4, 2)) -> SSDLiteHead:
    init_default_scope('mmdet')
    model = load('ssdlite_mobilevitv2_050').model
    sizes = dict(num_classes=NUM_CLASSES, in_channels=in_channels, feat_channels=feat_channels)
    cfgs = dict(train_cfg=model.train_cfg, test_cfg=model.test_cfg)
    return MODELS.build(ConfigDict({**model.bbox_head, **sizes, **cfgs}))


def naive_anchors(cells) -> torch.Tensor:
    """Center, width and height relative to the image, anchor by anchor."""
    sizes = torch.linspace(0.1, 1.05, len(cells) + 1, dtype=torch.float64).tolist()
    levels = zip(cells, pairwise(sizes), cvnets.SSD_RATIOS, strict=True)
    return torch.cat([cvnets.ssd_anchors(*cell, *size, ratios) for cell, size, ratios in levels])


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
    anchors = torch.cat(make_head().prior_generator.grid_priors(cells))
    expected = to_corners(naive_anchors(cells))
    # float32 against float64, relative to the image
    assert torch.allclose(anchors.double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize('key', ['in_channels', 'feat_channels'])
def test_a_list_that_misses_a_level_is_named(key):
    with pytest.raises(ValueError, match='the anchors have 6 levels'):
        make_head(**{key: [8, 6, 4, 4, 4]})


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
    logits = rows(scores, 0, NUM_CLASSES + 1).roll(1, dims=1)  # cvnets' background is the first
    expected = cvnets.select(
        rows(boxes, 0, 4), logits, naive_anchors(CELLS), original, nms_pre, score_thr, max_per_img
    )
    assert len(found) in num_found
    assert found.labels.equal(expected[2])
    torch.testing.assert_close(found.scores.double(), expected[1], rtol=0, atol=1e-5)
    # float32 at coordinates of some hundred pixels
    torch.testing.assert_close(found.bboxes.double(), expected[0], rtol=0, atol=1e-3)


def test_anchors_cover_the_input_of_the_network_at_any_size():
    head = make_head()
    cells = [(13, 19), (7, 10), (4, 5), (2, 3), (1, 2), (1, 1)]
    meta = dict(batch_input_shape=(200, 300), pad_shape=(200, 290))
    (anchors,), (valid,) = head.get_anchors(cells, [meta], device='cpu')
    expected = to_corners(naive_anchors(cells)) * torch.tensor([300, 200, 300, 200])
    assert torch.allclose(torch.cat(anchors).double(), expected, atol=1e-3)
    assert torch.cat(valid).all()
