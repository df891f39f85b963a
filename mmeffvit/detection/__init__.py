"""What detection needs and mmdet lacks; alone in importing mmdet."""

from .single_head_deformable import (
    ProjectedDeformableAttention,
    SingleHeadDeformableDETR,
    SplitDeformableAttention,
)
from .ssd_anchors import SSDLiteAnchorGenerator
from .ssdlite import SSDLiteHead, SSDLiteNeck
from .tta import InstanceTTAModel

__all__ = [
    'InstanceTTAModel',
    'ProjectedDeformableAttention',
    'SSDLiteAnchorGenerator',
    'SSDLiteHead',
    'SSDLiteNeck',
    'SingleHeadDeformableDETR',
    'SplitDeformableAttention',
]
