"""The head of GFLite: assignment, losses and predictions, against their definitions."""

import pytest
import torch
from mmdet.models.losses.gfocal_loss import distribution_focal_loss, quality_focal_loss
from mmdet.registry import MODELS
from mmengine.config import ConfigDict
from mmengine.registry import init_default_scope
from mmengine.structures import InstanceData
from torchvision.ops import box_iou, generalized_box_iou

from mmeffvit.deploy import fuse
from mmeffvit.errors import UserError
from mmeffvit.models.detection import LightHead, PointTaskAlignedAssigner
from tests.configs.models import load
from tests.models.parity import randomized

NUM_CLASSES, WIDTH = 3, 6
SIZES = [(8, 6), (4, 3), (2, 2), (1, 1)]  # of an image of 64 x 48
STRIDES = (8, 16, 32, 64)
META = dict(img_shape=(64, 48), pad_shape=(64, 48), ori_shape=(64, 48))
BOXES = torch.tensor([[4.0, 6, 30, 40], [10, 8, 44, 60], [2, 2, 12, 13]])
LABELS = torch.tensor([0, 2, 1])


def test_the_loss_is_weighted_by_class_and_not_on_background():
    logits, scores = torch.randn(40, NUM_CLASSES), torch.rand(40)
    labels = torch.randint(NUM_CLASSES + 1, (40,))
    other = torch.rand(40)
    loss = MODELS.build(
        dict(type='mmeffvit.ClassWeightedQualityFocalLoss', class_weight=[0.5, 2, 4], beta=1.5)
    )
    each = quality_focal_loss(logits, (labels, scores), beta=1.5, reduction='none')
    found = loss(logits, (labels, scores), other, avg_factor=7.0)
    scale = other * torch.tensor([0.5, 2, 4, 1])[labels]
    torch.testing.assert_close(found, (each * scale).sum() / 7)
    with pytest.raises(UserError, match='class_weight has 3 values for 2 classes'):
        loss(logits[:, :2], (labels, scores))


def make_head() -> LightHead:
    init_default_scope('mmdet')
    model = load('gflite_swiftformer_xs').model
    sizes = dict(num_classes=NUM_CLASSES, in_channels=WIDTH, feat_channels=WIDTH)
    cfgs = dict(train_cfg=model.train_cfg, test_cfg=model.test_cfg)
    torch.manual_seed(0)
    head = randomized(MODELS.build(ConfigDict({**model.bbox_head, **sizes, **cfgs})))
    for output in head.outputs:
        torch.nn.init.normal_(output.weight)
    return head


def levels(batch: int = 1) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(batch, WIDTH, *size, generator=generator) for size in SIZES]


def naive_points() -> list[tuple[float, float, int]]:
    """x, y and stride of the center of every cell."""
    return [
        ((x + 0.5) * stride, (y + 0.5) * stride, stride)
        for (height, width), stride in zip(SIZES, STRIDES, strict=True)
        for y in range(height)
        for x in range(width)
    ]


def naive_boxes(sides: torch.Tensor) -> torch.Tensor:
    """(N, 4 * 8) -> (N, 4): the mean of each side's distribution, in strides from the point."""
    x, y, stride = torch.tensor(naive_points()).double().T
    distances = (sides.double().view(-1, 4, 8).softmax(2) * torch.arange(8)).sum(2)
    left, top, right, bottom = (distances * stride[:, None]).T
    return torch.stack([x - left, y - top, x + right, y + bottom], dim=1)


def naive_targets(scores: torch.Tensor, boxes: torch.Tensor) -> tuple[list[int], list[float]]:
    """The instance of every point, -1 for none, and its target quality."""
    ious = box_iou(boxes, BOXES.double())
    metric = scores.double()[:, LABELS] * ious**6
    chosen = [[-1, 0.0] for _ in boxes]
    for instance, (x1, y1, x2, y2) in enumerate(BOXES.tolist()):
        for point in metric[:, instance].topk(13).indices.tolist():
            x, y, _ = naive_points()[point]
            inside = min(x - x1, y - y1, x2 - x, y2 - y) > 0.01
            iou = float(ious[point, instance])
            if inside and metric[point, instance] > 0 and iou > chosen[point][1]:
                chosen[point] = [instance, iou]
    owners = [instance for instance, _ in chosen]
    quality = [0.0] * len(boxes)
    for instance in set(owners) - {-1}:
        own = [i for i, owner in enumerate(owners) if owner == instance]
        highest = max(float(metric[i, instance]) for i in own)
        for i in own:
            scale = max(float(ious[j, instance]) for j in own) / highest
            quality[i] = float(metric[i, instance]) * scale
    return owners, quality


@pytest.fixture
def predicted() -> tuple[LightHead, torch.Tensor, torch.Tensor]:
    """A head, and the logits and distributions of all points of one image."""
    head = make_head()
    with torch.no_grad():
        scores, sides = head(levels())
    return head, *(torch.cat([x[0].flatten(1).T for x in both]) for both in (scores, sides))


def test_targets_are_scaled_task_alignments(predicted):
    _, logits, sides = predicted
    boxes = naive_boxes(sides)
    found = PointTaskAlignedAssigner(topk=13).assign(
        InstanceData(
            scores=logits.double(), bboxes=boxes, priors=torch.tensor(naive_points()).double()
        ),
        InstanceData(bboxes=BOXES.double(), labels=LABELS),
    )
    owners, quality = naive_targets(logits.sigmoid(), boxes)
    assert len(set(owners)) == 4
    assert (found.gt_inds - 1).tolist() == owners
    assert found.max_overlaps.tolist() == pytest.approx(quality)


def test_losses_are_those_of_their_equations(predicted):
    head, logits, sides = predicted
    losses = head.loss_by_feat(*head(levels()), [InstanceData(bboxes=BOXES, labels=LABELS)], [META])
    boxes = naive_boxes(sides)
    owners, quality = naive_targets(logits.sigmoid(), boxes)
    total = max(sum(quality), 1.0)
    owner, target = torch.tensor(owners), torch.tensor(quality, dtype=torch.float64)
    own = owner >= 0
    labels = torch.where(own, LABELS[owner], NUM_CLASSES)
    truth, weights = BOXES[owner[own]].double(), target[own]
    points, stride = torch.tensor(naive_points()).double()[own].split((2, 1), dim=1)
    offsets = torch.cat([points - truth[:, :2], truth[:, 2:] - points], dim=1) / stride
    giou = generalized_box_iou(boxes[own], truth).diag()
    dfl = distribution_focal_loss(
        sides[own].double().view(-1, 8), offsets.flatten().clamp(0, 6.99), reduction='none'
    )
    cls = quality_focal_loss(logits.double(), (labels, target), reduction='none')
    expected = dict(
        loss_cls=float(cls.sum()) / total,
        loss_bbox=2 * float(((1 - giou) * weights).sum()) / total,
        loss_dfl=0.25 * float((dfl * weights.repeat_interleave(4)).sum()) / (4 * total),
    )
    assert {name: float(loss) for name, loss in losses.items()} == pytest.approx(expected, rel=1e-4)


def test_an_image_without_objects_trains_scores_alone():
    head = make_head().train()
    none = InstanceData(bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long))
    losses = head.loss_by_feat(*head(levels(2)), [none, none], [META, META])
    assert losses['loss_cls'] > 0
    assert losses['loss_bbox'] == losses['loss_dfl'] == 0
    sum(losses.values()).backward()
    assert [name for name, p in head.named_parameters() if p.grad is None] == []


def test_the_best_prediction_is_the_box_of_its_point(predicted):
    head, logits, sides = predicted
    with torch.no_grad():
        (found,) = head.predict_by_feat(*head(levels()), batch_img_metas=[META])
    best = int(logits.argmax())
    expected = naive_boxes(sides)[best // NUM_CLASSES]
    bounds = torch.tensor([48.0, 64, 48, 64], dtype=torch.float64)
    torch.testing.assert_close(
        found.bboxes[0].double(), expected.clamp(min=0).minimum(bounds), rtol=1e-5, atol=1e-4
    )
    assert float(found.scores[0]) == pytest.approx(float(logits.max().sigmoid()))
    assert int(found.labels[0]) == best % NUM_CLASSES


def test_levels_share_convolutions_and_fusing_keeps_their_norms():
    head = make_head().double()
    first, *others = head.towers
    for tower in others:
        for layer, shared in zip(tower, first, strict=True):
            assert layer.conv is shared.conv
            assert layer.norm is not shared.norm
    inputs = [x.double() for x in levels()]
    fused = fuse(head)
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in fused.modules())
    with torch.no_grad():
        for maps, expected in zip(fused(inputs), head(inputs), strict=True):
            torch.testing.assert_close(maps, expected)
