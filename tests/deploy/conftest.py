"""Images of smooth noise, and a small file."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from mmeffvit.deploy.formats.onnx.write import ExportOptions, export_graph
from tests.deploy import tiny


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


@pytest.fixture(scope='module')
def onnx_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first stage of a SwiftFormer, for one image size."""
    out = tmp_path_factory.mktemp('exported') / 'tiny.onnx'
    return export_graph(tiny.graph(tiny.FIRST_STAGE), out, ExportOptions(tiny.SIZE, 1))
