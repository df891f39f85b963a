"""Room for files of released models."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """Removed at once: the files of all releases together are two gigabytes."""
    with TemporaryDirectory() as name:
        yield Path(name)
