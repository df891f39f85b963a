"""A temporary folder for files of released models."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is removed after each test: all files together have two gigabytes."""
    with TemporaryDirectory() as name:
        yield Path(name)
