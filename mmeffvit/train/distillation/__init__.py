"""Training a backbone to imitate another one, and losses between student and teacher."""

from .losses import (
    Adapter,
    ChannelWise,
    CrossHead,
    FeatureImitation,
    PixelDivergence,
    common_classes,
)
from .maps import Agreement, MapDistillation, agreement

__all__ = [
    'Adapter',
    'Agreement',
    'ChannelWise',
    'CrossHead',
    'FeatureImitation',
    'MapDistillation',
    'PixelDivergence',
    'agreement',
    'common_classes',
]
