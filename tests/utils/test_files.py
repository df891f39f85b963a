"""Outputs are complete or missing, and only our own files are removed."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output, check_output, locked, own_file, write_file
from mmeffvit.utils.interrupts import Interrupted, Raiser, handled
from tests.conftest import run_python


def test_files_are_renamed_together_when_complete(tmp_path):
    out = tmp_path / 'new' / 'model.xml'
    with atomic_output(out) as partial:
        partial.write_text('graph')
        partial.with_suffix('.bin').write_text('weights')
        assert not out.exists()
    assert out.read_text() == 'graph'
    assert sorted(path.name for path in out.parent.iterdir()) == ['model.bin', 'model.xml']


def test_names_may_have_as_many_bytes_as_the_file_system_allows(tmp_path):
    path = tmp_path / ('\u56f3' * 83 + '.png')  # three bytes each
    write_file(path, b'new')
    assert path.read_bytes() == b'new'


def test_a_full_disk_leaves_the_earlier_file(tmp_path, monkeypatch):
    path = tmp_path / 'epoch_1.pth'
    write_file(path, b'old')

    def fail(descriptor: int) -> None:
        raise OSError('disk full')

    monkeypatch.setattr(os, 'fsync', fail)
    with pytest.raises(OSError, match='disk full'):
        write_file(path, b'new and longer')
    assert path.read_bytes() == b'old'
    assert [path.name for path in tmp_path.iterdir()] == ['epoch_1.pth']


@pytest.mark.parametrize('made', ['file', 'folder'])
def test_a_folder_is_never_removed_for_an_output(tmp_path, made):
    images = tmp_path / 'images'
    images.mkdir()
    (images / 'only_copy.jpg').write_bytes(b'precious')

    def write():
        with atomic_output(images) as partial:
            partial.mkdir() if made == 'folder' else partial.write_bytes(b'int8')

    with pytest.raises(UserError, match='a folder that exists already'):
        write()
    assert (images / 'only_copy.jpg').read_bytes() == b'precious'
    assert [path.name for path in tmp_path.iterdir()] == ['images']


def test_outputs_are_checked_before_the_work(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"'a\.pth' must end in \.pkl or \.pickle"):
        check_output('a.pth', '.pkl', '.pickle')
    with pytest.raises(UserError, match=r'cannot be written: File name too long'):
        check_output(tmp_path / ('n' * 300))
    with pytest.raises(UserError, match='Could not determine home directory'):
        check_output('~no_such_user/a.onnx', '.onnx')
    assert check_output(tmp_path / 'new' / 'a.onnx', '.onnx') == tmp_path / 'new' / 'a.onnx'
    assert not (tmp_path / 'new').exists()
    (tmp_path / 'a.log').touch()
    monkeypatch.setattr(os, 'access', lambda path, mode: path != tmp_path)
    with pytest.raises(UserError, match=rf'no permission for {tmp_path}$'):
        check_output(tmp_path / 'a.log')
    assert own_file(tmp_path / 'a.log') == tmp_path / 'a.log'  # appended to


def link(kind: str, path: Path, target: Path) -> None:
    (path.symlink_to if kind == 'symbolic' else path.hardlink_to)(target)


@pytest.mark.parametrize('kind', ['symbolic', 'hard'])
def test_what_is_appended_to_a_link_stays_out_of_its_target(tmp_path, kind):
    target, log = tmp_path / 'thesis.txt', tmp_path / 'console.log'
    target.write_text('mine')
    target.chmod(0o600)
    link(kind, log, target)
    with own_file(log).open('a') as file:
        file.write(' and more')
    assert (log.read_text(), target.read_text()) == ('mine and more', 'mine')
    assert log.stat().st_mode & 0o777 == 0o600  # not readable by more people than before
    number = log.stat().st_ino
    assert own_file(log).stat().st_ino == number  # it was no link any more
    assert own_file(tmp_path / 'new.log') == tmp_path / 'new.log'
    assert sorted(path.name for path in tmp_path.iterdir()) == ['console.log', 'thesis.txt']


def hold(folder: Path, ready, done) -> None:
    with locked(folder, 'a training run'):
        ready.set()
        done.wait()


def test_a_lock_names_its_owner_and_ends_with_its_process(tmp_path):
    fork = multiprocessing.get_context('fork')
    ready, done = fork.Event(), fork.Event()
    first = fork.Process(target=hold, args=(tmp_path, ready, done))
    first.start()
    ready.wait()

    def take():
        with locked(tmp_path, 'another run'):
            pass

    with pytest.raises(UserError, match=rf'in use by a training run \(process {first.pid} on '):
        take()
    first.kill()
    first.join()
    take()


WRITER = """
import os, sys, time
from mmeffvit.utils.files import atomic_output
with atomic_output(sys.argv[1]) as partial:
    partial.write_text('half')
    print(partial.parent.name, flush=True)
    time.sleep(600)
"""


@contextmanager
def writing(path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that writes a file, and its temporary folder."""
    command = [sys.executable, '-c', WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, path.with_name(process.stdout.readline().strip())
        finally:
            process.kill()


def write_in_new_process(path: Path) -> None:
    code = 'import sys; from mmeffvit.utils.files import write_file; write_file(sys.argv[1], "new")'
    assert not run_python('-c', code, path).stdout


def test_what_a_killed_writer_has_left_is_removed_by_the_next_command(tmp_path):
    with writing(tmp_path / 'epoch_1.pth') as (process, left):
        assert (left / 'epoch_1.pth').read_text() == 'half'
        process.kill()
        process.wait()
    assert left.is_dir()
    write_in_new_process(tmp_path / 'epoch_2.pth')
    assert [path.name for path in tmp_path.iterdir()] == ['epoch_2.pth']


def test_the_temporary_files_of_another_running_command_are_kept(tmp_path):
    with writing(tmp_path / 'epoch_1.pth') as (_, partial):
        write_in_new_process(tmp_path / 'epoch_1.pth')
        assert (partial / 'epoch_1.pth').read_text() == 'half'


def test_only_temporary_folders_of_ours_are_removed(tmp_path):
    kept, ours = tmp_path / 'kept', '0a1b2c3d.mmeffvit-partial'
    kept.mkdir()
    (kept / 'only_copy.jpg').write_text('precious')
    for name in ('.partial', f'epoch_1.pth.{ours}', '.a.0a1b2c3.mmeffvit-partial', f'.{ours}'):
        (tmp_path / name).mkdir()
    (tmp_path / f'.file.{ours}').write_text('of somebody else')
    (tmp_path / f'.link.{ours}').symlink_to(kept)
    (tmp_path / f'.newer.{ours}').mkdir()
    os.utime(tmp_path / f'.newer.{ours}', (time.time() + 1000,) * 2)  # than the command
    before = {path.name for path in tmp_path.iterdir()}
    (tmp_path / f'.older.{ours}').mkdir()
    write_in_new_process(tmp_path / 'new.txt')
    assert {path.name for path in tmp_path.iterdir()} == {*before, 'new.txt'}
    assert (kept / 'only_copy.jpg').exists()


def write_until(seconds: float, path: Path) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    while True:
        with atomic_output(path) as partial:
            partial.write_bytes(b'graph')
            partial.with_suffix('.bin').write_bytes(b'weights')


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_moment_leaves_nothing(tmp_path, number):
    path, moments = tmp_path / 'model.xml', random.Random(0)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
    for _ in range(60):
        with pytest.raises(Interrupted), handled(Raiser()):
            write_until(moments.uniform(1e-4, 5e-3), path)
        left = {found.name for found in tmp_path.iterdir()}
        assert left in (set(), {'model.xml', 'model.bin'})
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_a_forked_process_that_survives_holds_no_lock(tmp_path):
    code = f"""
import os, time
from pathlib import Path
from mmeffvit.utils.files import atomic_output, locked
folder = Path({str(tmp_path)!r})
with locked(folder, 'a training run'), atomic_output(folder / 'epoch_1.pth'):
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
    os._exit(0)
"""
    survivor = int(run_python('-c', code).stdout)
    try:
        os.kill(survivor, 0)  # it is there
        write_in_new_process(tmp_path / 'new.txt')
        assert {path.name for path in tmp_path.iterdir()} == {'.mmeffvit-lock', 'new.txt'}
        with locked(tmp_path, 'another run'):
            assert 'another run' in (tmp_path / '.mmeffvit-lock').read_text()
    finally:
        os.kill(survivor, signal.SIGKILL)
