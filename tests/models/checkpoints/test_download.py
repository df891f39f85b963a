"""Downloads end, also from a server that never stops sending."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from mmeffvit.models.checkpoints import download
from mmeffvit.models.checkpoints.download import CheckpointError

STEP, LIMIT = 0.01, 0.2  # seconds between two bytes, and for all of them
COUNT = 60  # bytes in 0.6 s, after which the server gives up

HEAD = b'HTTP/1.0 200 OK\r\n'
LENGTH = b'Content-Length: %d\r\n\r\n' % COUNT


@pytest.fixture
def dripping(request) -> Iterator[str]:
    """The address of a server that sends its headers or its file byte by byte."""
    begin, end = (HEAD, LENGTH) if request.param == 'headers' else (HEAD + LENGTH, b'')

    def serve(server: socket.socket) -> None:
        client, _ = server.accept()
        with client:
            client.recv(2**16)
            try:
                client.sendall(begin + b'X: ' * bool(end))
                for _ in range(COUNT):
                    client.sendall(b'x')
                    time.sleep(STEP)
                client.sendall(b'\r\n' * bool(end) + end + b'x' * COUNT * bool(end))
            except OSError:  # the client has left
                pass

    with socket.create_server(('127.0.0.1', 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield f'http://127.0.0.1:{server.getsockname()[1]}/weights.pth'
        thread.join()


@pytest.mark.parametrize('dripping', ['headers', 'file'], indirect=True)
def test_a_server_that_sends_byte_by_byte_has_a_limit(dripping, tmp_path, monkeypatch):
    monkeypatch.setattr(download, 'TIMEOUT', LIMIT)
    path = tmp_path / 'weights.pth'
    with pytest.raises(CheckpointError, match=r'cannot download http.* in 0\.2 s'):
        download.download(dripping, path)
    assert not path.exists()


@pytest.mark.parametrize('dripping', ['file'], indirect=True)
def test_a_slow_server_is_waited_for(dripping, tmp_path, monkeypatch):
    monkeypatch.setattr(download, 'TIMEOUT', LIMIT)
    monkeypatch.setattr(download, 'LEAST', 1)
    download.download(dripping, tmp_path / 'weights.pth')
    assert (tmp_path / 'weights.pth').read_bytes() == b'x' * COUNT
