"""Pictures on the disk."""

from pathlib import Path

import cv2
from numpy.typing import NDArray

from .files import write_file


def write_image(path: str | Path, image: NDArray) -> None:
    """Write an image as OpenCV has it, (H, W, 3) BGR or (H, W); complete or absent."""
    done, content = cv2.imencode(Path(path).suffix, image)
    assert done, path
    write_file(path, content.tobytes())
