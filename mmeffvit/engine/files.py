"""Files that are either whole or absent."""

import os
from pathlib import Path

from mmengine.fileio import LocalBackend, register_backend

BACKEND = 'mmeffvit_atomic'


@register_backend(BACKEND, force=True)
class AtomicLocalBackend(LocalBackend):
    """The local file system; a file appears under its name when its last byte is on the disk.

    For ``CheckpointHook(backend_args=dict(backend='mmeffvit_atomic'))``: a run killed while it
    saves leaves the earlier checkpoints and a ``.partial`` file that the next save overwrites.
    """

    def put(self, obj: bytes, filepath: str | Path) -> None:
        path = Path(filepath)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + '.partial')
        with partial.open('wb') as file:
            file.write(obj)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
