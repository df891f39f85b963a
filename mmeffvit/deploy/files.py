"""Outputs that are either whole or absent."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(out: Path) -> Iterator[Path]:
    """A place to write a file or a folder, which takes its name when the block ends well.

    Args:
        out: The name; its folder is made.

    Yields:
        A path of the same name in a folder beside it, which is removed in any case. What else is
        written there moves along, before it.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f'.{out.name}.') as folder:
        yield Path(folder, out.name)
        for made in sorted(Path(folder).iterdir(), key=lambda path: path.name == out.name):
            target = out.with_name(made.name)
            if target.is_dir():  # one that is not empty cannot be replaced in one step
                shutil.rmtree(target)
            made.replace(target)
