"""Atomic writing of checkpoints."""

from pathlib import Path

from mmengine.fileio import LocalBackend, register_backend

from mmeffvit.utils.files import write_file

BACKEND = 'mmeffvit_atomic'


@register_backend(BACKEND, force=True)
class AtomicLocalBackend(LocalBackend):
    """The local file system; a file appears under its name once it is completely on disk.

    For ``CheckpointHook(backend_args=dict(backend='mmeffvit_atomic'))``: a run killed while
    saving keeps the earlier checkpoints.
    """

    def put(self, obj: bytes, filepath: str | Path) -> None:
        write_file(filepath, obj)

    def put_text(self, obj: str, filepath: str | Path, encoding: str = 'utf-8') -> None:
        write_file(filepath, obj.encode(encoding))
