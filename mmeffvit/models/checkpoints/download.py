"""Downloads into a cache: resumed after an interruption, complete or absent."""

import hashlib
import http.client
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.utils.files import locked, own_file, read_json, write_file

FOLDER = 'MMEFFVIT_WEIGHTS'  # environment variable with a folder of downloaded files
CHUNK = 2**20  # bytes
TIMEOUT = 60  # seconds until a complete answer, and without a byte
LEAST = 2**16  # bytes in this time: a server may send one at a time
OUT_OF_RANGE = http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE


def offline(address: str, otherwise: str) -> str:
    """Instructions for a machine without a network, which follow a message."""
    return (
        f'; on a machine with a network: `mmeffvit download {address} --out-dir DIR`'
        f'; on this one: {FOLDER}=DIR before the command, with a copy of DIR'
        f'; otherwise: {otherwise}, or give the path of your copy as the checkpoint'
    )


def download(
    address: str, path: Path, sha256: str = '', begin: Callable[[], object] = lambda: None
) -> None:
    """Download ``address`` to ``path``, unless that exists.

    An interrupted download in ``PATH.part`` is resumed, if the server still has the same file. A
    second process that needs the file waits for the first.

    Args:
        address: http(s) URL.
        path: Output file; its parent folders are created.
        sha256: Expected hexadecimal digest, or its first digits.
        begin: Called when the server has answered, before the first byte is written.

    Raises:
        CheckpointError: If the server cannot be reached, sends less than it announced, or a file of
            another digest; ``path`` is absent then.
    """
    with locked(path.parent, f'the download of {address}', wait=True):
        if path.is_file():
            return
        part, note = (path.with_name(path.name + end) for end in ('.part', '.part.json'))
        try:
            total = _fetch(address, part, note, begin)
        except (URLError, http.client.HTTPException, OSError, ValueError) as error:
            cause = getattr(error, 'reason', error)  # of a URLError
            raise CheckpointError(
                f'cannot download {address} ({cause}){offline(address, f"copy it to {path}")}'
            ) from None  # the frames of urllib tell nothing more
        size = part.stat().st_size
        if total not in (None, size):
            raise CheckpointError(
                f'the download of {address} ended after {size:,} of {total:,} bytes; the same '
                'command resumes it'
            )
        _check_digest(address, part, sha256)
        os.replace(part, path)
        note.unlink()


def _fetch(address: str, part: Path, note: Path, begin: Callable[[], object]) -> int | None:
    """Append the rest of the file to ``part``; returns the size that the server announces."""
    start = part.stat().st_size if part.is_file() and note.is_file() else 0
    headers = {'User-Agent': 'mmeffvit', 'Accept-Encoding': 'identity'}
    validator = _read_note(note) if start else None
    if validator:  # the server sends the rest of the same file, or all of a newer one
        headers |= {'Range': f'bytes={start}-', 'If-Range': validator}
    try:
        response = _answer(Request(address, headers=headers))
    except HTTPError as error:
        if not validator or error.code != OUT_OF_RANGE:
            raise
        note.unlink()  # nothing is missing, or it is of another file: restart
        return _fetch(address, part, note, begin)
    with response:
        begin()
        resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
        start = start if resumed else 0
        announced = response.headers.get('Content-Length')
        total = start + int(announced) if announced else None
        validator = response.headers.get('ETag') or response.headers.get('Last-Modified')
        write_file(note, json.dumps(validator))
        with own_file(part).open('ab' if resumed else 'wb') as file, _progress() as progress:
            task = progress.add_task(part.stem, total=total, completed=start)
            since, received = time.monotonic(), 0
            while chunk := response.read1(CHUNK):
                file.write(chunk)
                progress.advance(task, len(chunk))
                received += len(chunk)
                if time.monotonic() - since > TIMEOUT:
                    if received < LEAST:
                        raise TimeoutError(f'only {received:,} bytes in {TIMEOUT} s')
                    since, received = time.monotonic(), 0
            file.flush()
            os.fsync(file.fileno())
    return total


def _answer(request: Request) -> http.client.HTTPResponse:
    """``urlopen``, whose own limit is for every part of the headers, with one for all of them."""
    answers: Queue[Any] = Queue()

    def ask() -> None:
        try:
            answers.put(urlopen(request, timeout=TIMEOUT))
        except Exception as error:
            answers.put(error)

    Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=TIMEOUT)
    except Empty:
        raise TimeoutError(f'no complete answer in {TIMEOUT} s') from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _read_note(note: Path) -> str | None:
    """The server's validator of the file; None if the note is damaged, to download it again."""
    try:
        validator = read_json(note)
    except UserError:
        return None
    # it becomes a line of the request
    return validator if isinstance(validator, str) and validator.isprintable() else None


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = TextColumn('{task.description}'), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _check_digest(address: str, part: Path, sha256: str) -> None:
    if not sha256:
        return
    digest = hashlib.sha256()
    with part.open('rb') as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    if not digest.hexdigest().startswith(sha256):
        part.unlink()
        raise CheckpointError(
            f'{address} gave a file with SHA-256 {digest.hexdigest()}, not {sha256}: it was '
            'changed on its way or at its source'
        )
