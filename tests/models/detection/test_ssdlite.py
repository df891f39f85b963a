"""SSDLite: its levels, anchors, losses and predictions, against their definitions."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from mmdet.registry import MODELS
from mmengine.config import ConfigDict
from mmengine.registry import init_default_scope
from mmengine.structures import InstanceData

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


def naive_anchors(cells, clamped: bool = True) -> torch.Tensor:
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
    anchors = torch.tensor(anchors, dtype=torch.float64)
    return anchors.clamp(0, 1) if clamped else anchors


def to_corners(boxes: torch.Tensor) -> torch.Tensor:
    return torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], dim=1)


def overlap(a, b) -> float:
    shared = 1.0
    for i in (0, 1):
        shared *= max(0.0, float(min(a[i + 2], b[i + 2]) - max(a[i], b[i])))
    areas = [float((box[2] - box[0]) * (box[3] - box[1])) for box in (a, b)]
    return shared / (sum(areas) - shared)


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


def test_at_320_pixels_18_of_3232_anchors_end_at_the_size_of_the_image():
    clamped, free = naive_anchors(CELLS), naive_anchors(CELLS, clamped=False)
    assert len(clamped) == 3232
    assert (clamped != free).any(dim=1).sum() == 18
    levels = make_anchors().grid_priors(CELLS)
    assert [len(level) for level in levels] == [2400, 600, 150, 54, 24, 4]
    anchors = torch.cat(levels).double()
    changed = (anchors - to_corners(free)).abs().amax(dim=1) > 1e-6
    assert changed.sum() == 18


def test_anchors_not_clamped_are_those_of_mmdet_at_320_pixels():
    from mmdet.models.task_modules import SSDAnchorGenerator

    sizes = torch.linspace(0.1, 1.05, 7, dtype=torch.float64).mul(320).tolist()
    theirs = SSDAnchorGenerator(
        strides=[16, 32, 64, 320 / 3, 160, 320],
        ratios=RATIOS,
        min_sizes=sizes[:-1],
        max_sizes=sizes[1:],
        scale_major=False,
    ).grid_priors(CELLS, device='cpu')
    difference = (torch.cat(make_anchors().grid_priors(CELLS)) * 320 - torch.cat(theirs)).abs()
    assert (difference.amax(dim=1) > 1e-4).sum() == 18  # the clamped ones


@pytest.mark.parametrize('size', [(320, 320), (300, 200)])
def test_the_neck_keeps_the_maps_and_halves_the_last_one(size):
    neck = SSDLiteNeck([8, 12], extra_channels=[6, 4, 4], pooled_channels=3)
    maps = [torch.randn(2, 8, *(side // 16 for side in size))]
    maps.append(torch.randn(2, 12, *(side // 32 for side in size)))
    levels = neck(maps)
    assert levels[0] is maps[0]
    assert levels[1] is maps[1]
    for before, level, channels in zip(levels[1:], levels[2:5], (6, 4, 4), strict=False):
        assert level.shape == (2, channels, *(-(-side // 2) for side in before.shape[2:]))
        assert level.min() == 0
    mean = levels[4].mean(dim=(2, 3))
    pooled = (mean @ neck.pooled[1].weight.flatten(1).T).relu()
    # the order of summing differs
    assert torch.allclose(levels[5], pooled[..., None, None], atol=1e-5)


def test_separable_convolutions_have_no_activation_between_their_parts():
    neck = SSDLiteNeck([8], extra_channels=[6], pooled_channels=3).eval()
    depthwise, pointwise = neck.extras[0]
    x = torch.randn(1, 8, 5, 5)
    assert depthwise(x).min() < 0
    assert depthwise.conv.groups == 8
    assert depthwise.conv.stride == (2, 2)
    assert torch.equal(neck([x])[1], pointwise(depthwise(x)))


def test_the_neck_reports_invalid_arguments():
    with pytest.raises(ValueError, match='one map or more'):
        SSDLiteNeck([])
    with pytest.raises(ValueError, match='got 1 feature maps'):
        SSDLiteNeck([8, 12])([torch.zeros(1, 8, 4, 4)])


def test_a_predictor_gives_the_four_box_values_of_an_anchor_before_its_scores():
    head = make_head().eval()
    values = 4 + NUM_CLASSES + 1
    for predictor in head.predictors:
        torch.nn.init.zeros_(predictor[-1].weight)
        predictor[-1].bias.data = torch.arange(float(len(predictor[-1].bias)))
    maps = [torch.randn(1, c, *size) for c, size in zip(head.in_channels, CELLS, strict=True)]
    scores, boxes = head(maps)
    for level, anchors in enumerate(ANCHORS):
        said = torch.arange(float(anchors * values)).view(anchors, values)
        cells = math.prod(CELLS[level])
        of_boxes = rows([boxes[level]], 0, 4).float().view(cells, anchors, 4)
        of_scores = rows([scores[level]], 0, NUM_CLASSES + 1).float()
        assert torch.equal(of_boxes, said[:, :4].expand(cells, -1, -1))
        assert torch.equal(of_scores.view(cells, anchors, -1), said[:, 4:].expand(cells, -1, -1))


def test_only_a_map_of_other_channels_is_projected_and_the_last_predictor_is_plain():
    predictors = make_head().predictors
    assert [len(predictor) for predictor in predictors] == [3, 2, 2, 2, 2, 1]
    projection, depthwise, pointwise = predictors[0]
    x = torch.randn(2, 8, 5, 5)
    assert projection(x).min() == 0
    assert depthwise(projection(x)).min() < 0
    assert pointwise.bias is not None


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


def overlaps_with_anchors(boxes: list[list[float]]) -> torch.Tensor:
    corners = 320 * to_corners(naive_anchors(CELLS))
    return torch.tensor([[overlap(a, b) for b in boxes] for a in corners])


def test_the_boxes_of_the_loss_tests_cover_the_relevant_cases():
    overlaps = overlaps_with_anchors(BOXES[0])
    best = overlaps.argmax(dim=0)
    assert (overlaps.amax(dim=0) < 0.5).tolist() == [False, True, False, False]
    assert best[2] == best[3]
    for image in (0, 1):  # float32 and float64 agree on what is best
        first, second = overlaps_with_anchors(BOXES[image]).topk(2, dim=0).values
        assert (first - second > 1e-3).all()


def naive_losses(scores, boxes) -> tuple[float, float]:
    """Naive matching, hard negative mining and both losses."""
    anchors = naive_anchors(CELLS)
    box_loss = class_loss = 0.0
    num_positives = 0
    for image, labels in enumerate(LABELS):
        truth = torch.tensor(BOXES[image], dtype=torch.float64) / 320
        overlaps = overlaps_with_anchors(BOXES[image])
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
    for label in range(NUM_CLASSES):
        order = probs[:, label].argsort(descending=True)[: test_cfg.nms_pre].tolist()
        survivors: list[int] = []
        for i in order:
            if probs[i, label] > test_cfg.score_thr and all(
                overlap(found[i], found[j]) <= test_cfg.nms.iou_threshold for j in survivors
            ):
                survivors.append(i)
        kept += [(float(probs[i, label]), label, found[i]) for i in survivors]
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


def test_minimizing_the_losses_gives_the_boxes_and_their_classes():
    head = make_head()
    outputs = random_outputs(num_images=1)
    levels = [level.requires_grad_() for kind in outputs for level in kind]
    truth = InstanceData(bboxes=torch.tensor(BOXES[0]), labels=torch.tensor(LABELS[0]))
    meta = dict(batch_input_shape=(320, 320), img_shape=(320, 320))
    optimizer = torch.optim.Adam(levels, lr=0.5)
    for _ in range(60):
        losses = head.loss_by_feat(*outputs, [truth], [meta])
        optimizer.zero_grad()
        sum(sum(values) for values in losses.values()).backward()
        optimizer.step()
    (found,) = head.predict_by_feat(*outputs, batch_img_metas=[meta])
    for box, label in zip(truth.bboxes[[0, 1, 3]], truth.labels[[0, 1, 3]], strict=True):
        of_class = found[(found.labels == label) & (found.scores > 0.9)]
        nearest = (of_class.bboxes - box).abs().amax(dim=1).min()
        assert nearest < 2  # pixels of 320


def test_boxes_are_clipped_after_nms():
    head = make_head()
    boxes = [torch.zeros(1, a * 4, *c) for a, c in zip(ANCHORS, CELLS, strict=True)]
    scores = [
        torch.zeros(1, a * (NUM_CLASSES + 1), *c) for a, c in zip(ANCHORS, CELLS, strict=True)
    ]
    for level in scores:
        level.view(-1, NUM_CLASSES + 1, *level.shape[2:])[:, -1] = 20  # background
    # two anchors of the size of the image: one shifted by 0.8 to the left, one to the left and up
    scores[-1][0, [0, NUM_CLASSES + 1]] = torch.tensor([30.0, 29.0])[:, None, None]
    for i in (0, 1):
        side = head.prior_generator.sides[-1][i][0]
        boxes[-1][0, 4 * i + 2 : 4 * i + 4] = math.log(1 / side) / 0.2
        boxes[-1][0, 4 * i] = -0.8 / side / 0.1
    boxes[-1][0, 5] = -0.5 / head.prior_generator.sides[-1][1][0] / 0.1
    meta = dict(batch_input_shape=(320, 320), img_shape=(320, 320))
    (found,) = head.predict_by_feat(scores, boxes, batch_img_metas=[meta])
    expected = torch.tensor([[0.0, 0.0, 64.0, 320.0], [0.0, 0.0, 64.0, 160.0]])
    assert torch.allclose(found.bboxes, expected, atol=1e-3)


def test_anchors_cover_the_input_of_the_network_at_any_size():
    head = make_head()
    cells = [(13, 19), (7, 10), (4, 5), (2, 3), (1, 2), (1, 1)]
    meta = dict(batch_input_shape=(200, 300), pad_shape=(200, 290))
    (anchors,), (valid,) = head.get_anchors(cells, [meta], device='cpu')
    expected = to_corners(naive_anchors(cells)) * torch.tensor([300, 200, 300, 200])
    assert torch.allclose(torch.cat(anchors).double(), expected, atol=1e-3)
    assert torch.cat(valid).all()
