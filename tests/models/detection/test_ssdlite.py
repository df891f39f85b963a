"""SSDLite: its anchors and predictions, against cvnets' definitions.

Its losses are mmdet's, with the settings that tests/configs/test_recipes.py compares.
"""

from functools import partial
from itertools import pairwise

import pytest
import torch
from mmdet.registry import MODELS
from mmengine.config import ConfigDict
from mmengine.registry import init_default_scope
from torchvision.ops import box_convert

from mmeffvit.models.detection import SSDLiteHead
from tests.configs.models import load
from tests.released import cvnets

CELLS = [(20, 20), (10, 10), (5, 5), (3, 3), (2, 2), (1, 1)]  # of the levels at 320 x 320
ANCHORS = [6, 6, 6, 6, 6, 4]
NUM_CLASSES = 3


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


def random_outputs() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Scores and boxes of an image on all levels."""
    scores, boxes = [], []
    for (height, width), anchors in zip(CELLS, ANCHORS, strict=True):
        scores.append(2 * torch.randn(1, anchors * (NUM_CLASSES + 1), height, width))
        boxes.append(0.5 * torch.randn(1, anchors * 4, height, width))
    return scores, boxes


def rows(levels: list[torch.Tensor], channels: int) -> torch.Tensor:
    """The outputs of a head for each anchor, in float64."""
    flat = [level[0].movedim(0, 2).reshape(-1, channels) for level in levels]
    return torch.cat(flat).double()


@pytest.mark.parametrize(
    ('size', 'cells'),
    [((320, 320), CELLS), ((200, 300), [(13, 19), (7, 10), (4, 5), (2, 3), (1, 2), (1, 1)])],
)
def test_anchors_are_those_of_the_definition_and_cover_inputs_of_any_size(size, cells):
    meta = dict(batch_input_shape=size, pad_shape=(size[0], size[1] - 10))
    (anchors,), (valid,) = make_head().get_anchors(cells, [meta], device='cpu')
    expected = to_corners(naive_anchors(cells)) * torch.tensor(size[::-1] * 2)
    # float32 against float64, at coordinates of some hundred pixels
    assert torch.allclose(torch.cat(anchors).double(), expected, atol=3e-4, rtol=0)
    assert torch.cat(valid).all()


@pytest.mark.parametrize('key', ['in_channels', 'feat_channels'])
def test_a_list_that_misses_a_level_is_named(key):
    with pytest.raises(ValueError, match='the anchors have 6 levels'):
        make_head(**{key: [8, 6, 4, 4, 4]})


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
    scores, boxes = random_outputs()
    network, original = (320, 320), (240, 480)
    meta = dict(
        batch_input_shape=network,
        img_shape=network,
        ori_shape=original,
        scale_factor=(2 / 3, 4 / 3),
    )
    (found,) = head.predict_by_feat(scores, boxes, batch_img_metas=[meta], rescale=True)
    logits = rows(scores, NUM_CLASSES + 1).roll(1, dims=1)  # cvnets' background is the first
    expected = cvnets.select(
        rows(boxes, 4), logits, naive_anchors(CELLS), original, nms_pre, score_thr, max_per_img
    )
    assert len(found) in num_found
    assert found.labels.equal(expected[2])
    torch.testing.assert_close(found.scores.double(), expected[1], rtol=0, atol=1e-5)
    # float32 at coordinates of some hundred pixels
    torch.testing.assert_close(found.bboxes.double(), expected[0], rtol=0, atol=1e-3)
