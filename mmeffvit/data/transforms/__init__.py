"""Image transforms of the papers' recipes that mmdet and mmseg lack."""

from .loading import LoadReduced, SampleByScore
from .photometric import PhotometricDistortion, RandomGaussianBlur
from .resize import FloorToMultiple, Resize
from .ssd_crop import MaxIoURandomCrop

__all__ = [
    'FloorToMultiple',
    'LoadReduced',
    'MaxIoURandomCrop',
    'PhotometricDistortion',
    'RandomGaussianBlur',
    'Resize',
    'SampleByScore',
]
