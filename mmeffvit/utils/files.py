"""Files: untrusted ones are read safely, outputs are complete or absent, folders are locked."""

import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError

from .interrupts import deferred

PACKAGE = Path(__file__).resolve().parents[1]
LOCK = '.mmeffvit-lock'  # in the work dir of a run
# suffix of the hidden temporary folder next to the target; its name is unique
PARTIAL = '.mmeffvit-partial'
LEFT_OVER = re.compile(rf'\..+\.[0-9a-f]{{8}}{re.escape(PARTIAL)}', re.DOTALL)


def resource_dir(name: str) -> Path:
    """Return the folder 'configs' or 'tools': inside the package, else next to it.

    Raises:
        FileNotFoundError: If the package was installed without them.
    """
    for folder in (PACKAGE / '.mim' / name, PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f'no {name} next to or inside {PACKAGE}: install mmeffvit with pip')


def cache_folder() -> Path | None:
    """The user's folder for what can be computed again; None without a home."""
    try:
        return Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache', 'mmeffvit')
    except RuntimeError:
        return None


def read_file(path: str | os.PathLike) -> bytes:
    """The content of a regular file: a pipe or a device could block.

    Raises:
        UserError: If it does not exist or cannot be read.
    """
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(
                f'{str(path)!r} is not a regular file, but a folder, a pipe or a device'
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f'{str(path)!r} does not exist') from None
    except (OSError, ValueError) as error:  # no permission, a cycle of links, a null byte
        raise UserError(f'{str(path)!r} cannot be read: {error}') from error


def read_json(path: str | os.PathLike) -> Any:
    """The content of a JSON file.

    Raises:
        UserError: If it cannot be read, or is not valid JSON.
    """
    return parse_json(read_file(path), str(path))


def stamp(path: str | os.PathLike) -> tuple[int, int]:
    """Size and time of the last change of a file, in nanoseconds, to notice that it changed."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def parse_json(text: str | bytes, source: str) -> Any:
    """Parse JSON.

    Raises:
        UserError: If it is invalid; the message begins with ``source``.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise UserError(f'{source} cannot be read as JSON: it is nested too deeply') from None
    except ValueError as error:  # includes encoding errors
        raise UserError(f'{source} is not valid JSON: {error}') from error


def check_output(
    path: str | os.PathLike, *suffixes: str, folder: bool = False, in_place: bool = False
) -> Path:
    """Check in advance that ``path`` can be written, without creating anything.

    Args:
        path: The output.
        suffixes: Allowed suffixes; any if none are given.
        folder: Whether the output is a folder, which may exist, or a file.
        in_place: Whether an existing file is written to; by default, another takes its place.

    Returns:
        The path.

    Raises:
        UserError: If the suffix is not allowed, the file is an existing folder (or the reverse), or
            the parent is not a writable folder.
    """
    if suffixes and Path(path).suffix not in suffixes:
        raise UserError(f'output {str(path)!r} must end in {" or ".join(filter(None, suffixes))}')
    try:
        out = Path(path).expanduser()
        if os.path.lexists(out) and not (out.is_dir() if folder else out.is_file()):
            kind = 'file' if out.is_file() else 'pipe, device or dead link'
            kind = 'folder' if out.is_dir() else kind
            raise UserError(
                f'output {str(path)!r} is a {kind} that exists already: choose another name; '
                'nothing was changed'
            )
        above = out.absolute().parents  # a cycle of links does not "exist", but is there
        nearest = out if out.exists() else next(p for p in above if os.path.lexists(p))
    except (OSError, RuntimeError) as error:  # a name too long, a loop of links, an unknown user
        cause = getattr(error, 'strerror', None) or error
        raise UserError(f'output {str(path)!r} cannot be written: {cause}') from error
    if nearest.absolute() != out.absolute() and not nearest.is_dir():
        raise UserError(f'output {str(path)!r} cannot be written: {nearest} is not a folder')
    is_replaced = nearest.is_file() and not in_place
    for place in (nearest, nearest.parent) if is_replaced else (nearest,):
        if not os.access(place, os.W_OK):
            raise UserError(f'output {str(path)!r} cannot be written: no permission for {place}')
    return out


def check_companions(out: Path, suffixes: Iterable[str]) -> None:
    """Raise UserError if a file next to a new one would replace another."""
    for other in map(out.with_suffix, suffixes):
        if other.exists() and not out.exists():
            raise UserError(f'{other} would be overwritten with {out}: choose another name')


@contextmanager
def atomic_output(out: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path for a file or a folder, which is renamed to ``out`` on success.

    Concurrent writers never mix: each works in its own folder next to the target, and the last one
    to finish wins. After an error nothing has changed. A link is replaced under its own name: its
    target, or the file under its other name, never changes. A folder that is a link is used.

    Args:
        out: The output path; its parent folders are created.

    Yields:
        A path of the same name in a temporary folder. Other files next to it are moved before it.

    Raises:
        UserError: If a folder with the name of an output exists: it is not removed.
    """
    with partial_folder(out) as work:
        yield work / Path(out).name
        publish(work, out)


@contextmanager
def partial_folder(out: str | os.PathLike) -> Iterator[Path]:
    """A temporary folder next to ``out``, locked by this process, and removed at the end.

    Its parent folders are created; folders that killed processes have left there are removed.
    """
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    remove_partial(out.parent.absolute())
    name = os.fsencode(out.name)[:200].decode(errors='ignore')  # a name has up to 255 bytes
    work = out.with_name(f'.{name}.{secrets.token_hex(4)}{PARTIAL}')
    try:
        work.mkdir()
        with _locked_folder(work):
            yield work
    finally:
        try:
            with deferred():
                shutil.rmtree(work, ignore_errors=True)
        finally:  # of a signal just before it
            shutil.rmtree(work, ignore_errors=True)


def publish(work: Path, out: str | os.PathLike) -> None:
    """Move the files and folders in ``work`` next to ``out``, and the one of its name last.

    Raises:
        UserError: If a folder with the name of one of them exists.
    """
    out = Path(out)
    made = sorted(work.iterdir(), key=lambda path: path.name == out.name)
    for path in made:
        for item in (path, *path.rglob('*')):
            _synchronize(item)
        check_output(out.with_name(path.name))
    with deferred():  # all of them
        for path in made:
            os.replace(path, out.with_name(path.name))
    _synchronize(out.parent)


def write_file(path: str | os.PathLike, content: bytes | str) -> None:
    """Write a file as :func:`atomic_output` does."""
    with atomic_output(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def own_file(path: str | os.PathLike) -> Path:
    """Replace a link by a copy, so that writing to ``path`` in place changes no other file.

    For files that are appended to or that other packages write. Returns the path.

    Raises:
        UserError: If it is a folder, a pipe, a device or a dead link.
    """
    path = check_output(path, in_place=True)
    if path.is_symlink() or (path.exists() and path.stat().st_nlink > 1):
        with atomic_output(path) as copy:
            shutil.copy(path, copy)
    return path


_locks: set[int] = set()  # descriptors of the locks that this process holds
_started = time.time()


def _start_forked() -> None:
    """Release the parent's locks in a forked process, which may survive a parent that is killed."""
    global _started
    _started = time.time()
    remove_partial.cache_clear()
    for descriptor in _locks:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, descriptor)  # not closed: its number must not be used again
        os.close(null)
    _locks.clear()


os.register_at_fork(after_in_child=_start_forked)


@contextmanager
def locked(folder: Path, job: str, *, wait: bool = False) -> Iterator[None]:
    """Lock ``folder`` for this process; the system releases the lock when the process ends.

    Args:
        folder: The folder; created if missing.
        job: Name of the job, for the error message of other processes.
        wait: Wait for another process instead of raising an error.

    Raises:
        UserError: If another process holds the lock; the message names it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    with own_file(path).open('a+') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            lock.seek(0)
            raise UserError(
                f'{folder} is in use by {lock.read().strip() or "another process"}: wait for it, '
                'or choose another --work-dir'
            ) from error
        lock.truncate(0)
        lock.write(f'{job} (process {os.getpid()} on {os.uname().nodename})')
        lock.flush()
        _locks.add(lock.fileno())
        try:
            yield
        finally:
            _locks.discard(lock.fileno())


@cache
def remove_partial(folder: Path) -> None:
    """Remove temporary folders of killed processes in ``folder``, once per process.

    They are older than this process and not locked: others may be in use.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if LEFT_OVER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                _remove_unused(Path(entry.path))


def _remove_unused(folder: Path) -> None:
    with suppress(OSError):  # of another user, or removed by another process
        if folder.stat().st_mtime < _started:
            with _locked_folder(folder) as is_locked:
                if is_locked:
                    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked_folder(folder: Path) -> Iterator[bool]:
    """Lock a folder; the system releases the lock when this process ends.

    Yields:
        False if another process holds it, or if the file system has no locks of folders.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    _locks.add(descriptor)
    is_locked = False
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        yield is_locked
    finally:
        _locks.discard(descriptor)
        os.close(descriptor)


def _synchronize(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
