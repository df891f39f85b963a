"""Outputs that are either complete or absent, and that replace nothing but an earlier file."""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmeffvit.errors import UserError

# of a file that is being written: hidden, beside its target, of a name that nobody else has
PARTIAL = '.mmeffvit-partial'


def check_output(path: str | os.PathLike, *suffixes: str, folder: bool = False) -> Path:
    """Check before the work that ``path`` can be written, without creating anything.

    Args:
        path: The output.
        suffixes: Endings that its name may have; none accepts any.
        folder: The output is a folder, which may exist; else a file.

    Returns:
        The path.

    Raises:
        UserError: If the ending is another, a folder lies where the file goes (or the reverse), or
            the folder around it is no folder or cannot be written.
    """
    out = Path(path).expanduser()
    if suffixes and out.suffix not in suffixes:
        raise UserError(f'output {str(path)!r} must end in {" or ".join(suffixes)}')
    try:
        if os.path.lexists(out) and not (out.is_dir() if folder else out.is_file()):
            kind = 'folder' if out.is_dir() else 'file' if out.is_file() else 'device or dead link'
            raise UserError(
                f'output {str(path)!r} is a {kind} that exists already: choose another name; '
                'nothing was changed'
            )
        above = out.absolute().parents  # a loop of links is there, though it does not "exist"
        nearest = out if out.exists() else next(p for p in above if os.path.lexists(p))
    except OSError as error:  # a name too long, a loop of links
        raise UserError(f'output {str(path)!r} cannot be written: {error.strerror}') from error
    if nearest.absolute() != out.absolute() and not nearest.is_dir():
        raise UserError(f'output {str(path)!r} cannot be written: {nearest} is not a folder')
    if not os.access(nearest, os.W_OK):
        raise UserError(f'output {str(path)!r} cannot be written: no permission for {nearest}')
    return out


@contextmanager
def atomic_output(out: str | os.PathLike) -> Iterator[Path]:
    """Yield a place to write a file or a folder, which takes its name when the block ends well.

    Two writers of one name never mix: each works in a folder of its own beside the target, and the
    last one to finish wins. After an error nothing has changed.

    Args:
        out: The name; the folders above it are created.

    Yields:
        A path of the same name in a temporary folder. Whatever else is written beside it moves
        along, before it.

    Raises:
        UserError: If a folder has the name of what was written: nothing is removed for it.
    """
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.with_name(partial_name(out.name))
    work.mkdir()
    try:
        yield work / out.name
        made = sorted(work.iterdir(), key=lambda path: path.name == out.name)
        for path in made:
            for item in (path, *path.rglob('*')):
                _synchronize(item)
            check_output(out.with_name(path.name))
        for path in made:
            os.replace(path, out.with_name(path.name))
        _synchronize(out.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_file(path: str | os.PathLike, content: bytes | str) -> None:
    """Write a file at once: complete under its name, or absent.

    Raises:
        UserError: If a folder has that name.
    """
    with atomic_output(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def partial_name(name: str) -> str:
    """A temporary name for ``name``, one that no other writer has."""
    return f'.{name[:200]}.{secrets.token_hex(4)}{PARTIAL}'


def partial_path(path: Path) -> Path:
    """A place beside ``path`` for results that grow, and are of use if they are interrupted.

    No other writer has it, and its ending is that of ``path``.
    """
    return path.with_name(f'{path.stem}.partial-{secrets.token_hex(4)}{path.suffix}')


@contextmanager
def locked(folder: Path, job: str, *, wait: bool = False) -> Iterator[None]:
    """Hold ``folder`` for this process; the system gives it back however the process ends.

    Args:
        folder: Created if need be.
        job: What works there, for the message of the other.
        wait: Until another process is done, in place of the error.

    Raises:
        UserError: If another process holds it; the message names it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / '.mmeffvit-lock'
    with path.open('a+') as lock:
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
        yield


def remove_partial(folder: Path) -> None:
    """Remove what killed writers left in ``folder``; only for one who holds its lock."""
    for path in folder.glob(f'.*{PARTIAL}'):
        shutil.rmtree(path, ignore_errors=True)


def _synchronize(path: Path) -> None:
    """Have the system put a file, or the list of a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
