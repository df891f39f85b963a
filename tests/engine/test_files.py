"""A file is whole or absent."""

import os

import pytest

from mmeffvit.engine.files import AtomicLocalBackend


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / 'epoch_1.pth'
    backend = AtomicLocalBackend()
    backend.put(b'old', path)

    def fail(descriptor: int) -> None:
        raise OSError('disk full')

    monkeypatch.setattr(os, 'fsync', fail)
    with pytest.raises(OSError, match='disk full'):
        backend.put(b'new and longer', path)
    assert path.read_bytes() == b'old'
