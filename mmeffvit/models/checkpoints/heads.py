"""The heads of our models, recognized by their keys."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Head:
    """Keys by which a head is recognized."""

    name: str  # first part of the name of its configs
    marker: str  # pattern that only keys of this head match
    per_class: str  # pattern of the tensors that depend on the number of classes
    counted: str  # one of these tensors, with ``anchors * (classes + others)`` rows
    anchors: int = 1
    others: int = 0  # rows of an anchor that are no class


SEGMENTS = dict(
    per_class=r'^(decode|auxiliary)_head\.conv_seg\.', counted='decode_head.conv_seg.bias'
)
HEADS = (
    Head('ssdlite', r'^bbox_head\.predictors\.', r'^bbox_head\.predictors\.\d\.\d\.(weight|bias)$',
         'bbox_head.predictors.5.0.bias', anchors=4, others=5),
    Head('retinanet', r'^bbox_head\.retina_cls\.', r'^bbox_head\.retina_cls\.',
         'bbox_head.retina_cls.bias', anchors=9),
    Head('maskrcnn', r'^roi_head\.mask_head\.',
         r'^roi_head\.(bbox_head\.fc_(cls|reg)|mask_head\.conv_logits)\.',
         'roi_head.mask_head.conv_logits.bias'),
    Head('rtmdet', r'^bbox_head\.rtm_cls\.', r'^bbox_head\.rtm_cls\.', 'bbox_head.rtm_cls.0.bias'),
    Head('gflite', r'^bbox_head\.outputs\.', r'^bbox_head\.outputs\.',
         'bbox_head.outputs.0.bias', others=32),
    Head('deformabledetr', r'^bbox_head\.cls_branches\.', r'^bbox_head\.cls_branches\.',
         'bbox_head.cls_branches.0.bias'),
    Head('segformer', r'^decode_head\.fusion_conv\.', **SEGMENTS),
    Head('pspnet', r'^decode_head\.pools\.', **SEGMENTS),
    Head('deeplabv3', r'^decode_head\.image_pool\.', **SEGMENTS),
    Head('semfpn', r'^decode_head\.scale_heads\.', **SEGMENTS),
    Head('classifier', r'^head\.classifier\.', r'^head\.(classifier|distilled)\.fc\.',
         'head.classifier.fc.bias'),
)  # fmt: skip
CLASSIFIER = HEADS[-1]


def head_of(weights: Mapping[str, Tensor]) -> Head | None:
    """The head of a model by our keys, if it is one of released models."""
    return next((h for h in HEADS if any(re.search(h.marker, key) for key in weights)), None)
