"""Detection modules that mmdet lacks; of the models, only these import mmdet."""

from .class_weighted_loss import ClassWeightedQualityFocalLoss
from .datasets import ClassBalancedDataset, ScoredCocoDataset
from .light import LightHead, PointTaskAlignedAssigner
from .single_head_deformable import (
    ProjectedDeformableAttention,
    SingleHeadDeformableDETR,
    SplitDeformableAttention,
)
from .ssdlite import SSDLiteAnchorGenerator, SSDLiteHead, SSDLiteNeck
from .tta import InstanceTTAModel

__all__ = [
    'ClassBalancedDataset',
    'ClassWeightedQualityFocalLoss',
    'InstanceTTAModel',
    'LightHead',
    'PointTaskAlignedAssigner',
    'ProjectedDeformableAttention',
    'SSDLiteAnchorGenerator',
    'SSDLiteHead',
    'SSDLiteNeck',
    'ScoredCocoDataset',
    'SingleHeadDeformableDETR',
    'SplitDeformableAttention',
]
