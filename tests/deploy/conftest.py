"""Images of smooth noise."""

from pathlib import Path

import cv2
import numpy as np
import pytest


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Six images of smooth noise: neighboring values are correlated, as in real images."""
    folder = tmp_path_factory.mktemp('images')
    generator = np.random.default_rng(0)
    for index in range(6):
        coarse = generator.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        picture = cv2.resize(coarse, (96, 64), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / f'{index}.png'), picture)
    return folder


@pytest.fixture(scope='module')
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """72 x 96 pixels of smooth noise."""
    coarse = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    path = tmp_path_factory.mktemp('picture') / 'noise.png'
    cv2.imwrite(str(path), cv2.resize(coarse, (96, 72)))
    return path
