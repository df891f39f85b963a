"""Image transforms of the papers' recipes that mmdet and mmseg lack."""

from .blur import RandomGaussianBlur
from .photometric import PhotometricDistortion
from .reduced import LoadReduced
from .resize import FloorToMultiple, Resize
from .sample import SampleByScore
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
