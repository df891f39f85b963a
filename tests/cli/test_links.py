"""Every command replaces the name of its output: no file that it is a link to changes."""

import os
import signal
import subprocess
from pathlib import Path
from types import FrameType

import pytest

import mmeffvit
from tests.conftest import run_command_here
from tests.variants import sampled

VAL = 'shapes/annotations/instances_val2017.json'
DETECTOR = ('detector.py', 'run/epoch_2.pth')
OF_ADE = ('segmentor.py', 'run_of_segmentor/iter_1.pth')
WITH_HEADS = ('../hostile_heads/mmseg.py', '../hostile_heads/epoch_1.pth')
ONNX = ('model.onnx', 'images')
OF_PRUNED = ('p.py', 'p_distill.py')
FASTEST = ('--exclude', 'none', '--allow-slower')
SHORT = ('--cfg-options', 'train_cfg.max_epochs=1')
BRIEF = ('--shape', 64, 64, '--seconds', 0.05, '--threads', 1, '--device', 'cpu')
# of each command: what it takes, with OUT for the folder of its outputs, and the outputs in it
COMMANDS: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    'quantize': (('quantize', *ONNX, 'OUT/q.onnx', *FASTEST), ('q.onnx',)),
    'quantize to OpenVINO': (('quantize', *ONNX, 'OUT/q.xml', *FASTEST), ('q.xml', 'q.bin')),
    'export': (
        ('export', *OF_ADE, 'OUT/e.onnx', '--backbone-only', '--shape', 64, 64), ('e.onnx',)),
    'export to OpenVINO': (
        ('export', *OF_ADE, 'OUT/e.xml', '--backbone-only', '--shape', 64, 64),
        ('e.xml', 'e.bin')),
    'export to ncnn': (
        ('export', *OF_ADE, 'OUT/e.param', '--shape', 64, 64), ('e.param', 'e.bin', 'e.json')),
    'predict': (
        ('predict', *DETECTOR, 'images', 'video.avi', '--out-dir', 'OUT/p', '--out', 'OUT/p.json'),
        ('p.json', 'p.images.json', 'p/a.jpg', 'p/b.jpg', 'p/video.mp4')),
    'predict label maps': (
        ('predict', *OF_ADE, 'images/a.jpg', '--out', 'OUT/maps', '--out-dir', 'OUT/p'),
        ('maps/a.png', 'p/a.jpg')),
    'test': (
        ('test', *DETECTOR, '--work-dir', 'OUT/w', '--out', 'OUT/t.pkl', '--show-dir', 'OUT/s'),
        ('t.pkl', 's/000000.png', 's/000001.png', 'w/detector.py', 'w/console.log')),
    'test a segmentor': (
        ('test', *OF_ADE, '--work-dir', 'OUT/w', '--out', 'OUT/t.pkl', '--show-dir', 'OUT/s'),
        ('t.pkl', 's/vis_data/vis_image/test_ADE_val_00000001.jpg_0.png', 's/vis_data/config.py',
         'w/segmentor.py')),
    'train': (
        ('train', 'detector.py', '--no-check', '--work-dir', 'OUT/w', *SHORT),
        ('w/.mmeffvit-lock', 'w/detector.py', 'w/console.log', 'w/last_checkpoint')),
    'complexity': (('complexity', 'SwiftFormer:xs', '--json', 'OUT/c.json'), ('c.json',)),
    'curves': (('analyze', 'curves', 'run', '--out', 'OUT/c.png'), ('c.png',)),
    'browse': (
        ('browse', 'detector.py', '--num-images', 1, '--out-dir', 'OUT'), ('detector_train.png',)),
    'per-class': (
        ('analyze', 'per-class', 'detector.py', 'found.pkl', '--out-dir', 'OUT'),
        ('per_class.md', 'per_class.png')),
    'errors': (
        ('analyze', 'errors', 'found.pkl', '--out-dir', 'OUT', '--ann', VAL),
        ('bbox/errors.json', 'bbox/errors.md', 'bbox/errors.png')),
    'heads': (
        ('analyze', 'heads', *WITH_HEADS, '--layers', 'stages.3', '--out', 'OUT'),
        ('heads.json', 'heads.csv')),
    'prune': (
        ('prune', *WITH_HEADS, '--method', 'random', '--out', 'OUT/p.pth'),
        ('p.pth', *OF_PRUNED)),
    'attention': (
        ('analyze', 'attention', 'SwiftFormer:xs', 'images/a.jpg', '--out', 'OUT'),
        ('a.additive.png', 'a.npz')),
    'convert-dataset': (
        ('convert-dataset', 'shapes', 'OUT'), ('train.json', 'val.json', 'faults.txt')),
    'convert-dataset to label maps': (
        ('convert-dataset', 'shapes', 'OUT', '--label-maps'),
        ('train.json', 'about.json', 'train/000001.png')),
    'profile': (
        ('profile', 'model.onnx', *BRIEF, '--formats', '.onnx', '--json', 'OUT/p.json', '--out',
         'OUT/p.png'),
        ('p.json', 'p.png')),
}  # fmt: skip
# what exists already and is read before it is written
READ = {'heads.json': '{}', 'last_checkpoint': 'gone.pth'} | dict.fromkeys(OF_PRUNED, 'kept_heads')
KEPT = 'precious'
LIMIT = 300  # seconds of a command
# quick commands, with at least one output of every way of writing
PIPES = [
    (name, output)
    for name in ('predict', 'predict label maps', 'test', 'test a segmentor', 'train', 'complexity')
    for output in COMMANDS[name][1]
]


@pytest.fixture
def out(world, tmp_path, monkeypatch) -> Path:
    """The folder for outputs; commands run in the world, and end if they wait for a pipe."""
    monkeypatch.chdir(world)

    def stop(number: int, frame: FrameType | None) -> None:
        pytest.fail('the command hangs')  # no exception that a command handles

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    yield tmp_path / 'out'
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def run(name: str, out: Path) -> subprocess.CompletedProcess[str]:
    arguments, _ = COMMANDS[name]
    return run_command_here(*(str(each).replace('OUT', str(out)) for each in arguments))


def link(kind: str, paths: list[Path], outside: Path) -> list[Path]:
    """Make every path a link of a kind to a file of its own in another folder, and return these."""
    outside.mkdir()
    targets = [outside / str(number) for number, _ in enumerate(paths)]
    for path, target in zip(paths, targets, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(READ.get(path.name, KEPT))
        (path.symlink_to if kind == 'symbolic' else path.hardlink_to)(target)
    return targets


def assert_replaced(paths: list[Path], targets: list[Path]) -> None:
    """Every path is a file of its own with new content, and its former target is as before."""
    for path, target in zip(paths, targets, strict=True):
        before = READ.get(path.name, KEPT).encode()
        assert target.read_bytes() == before, f'{path} was written through'
        assert not path.is_symlink()
        assert path.stat().st_nlink == 1, path
        assert path.read_bytes() != before, f'{path} was not written'


@pytest.mark.parametrize('kind', sampled(['symbolic', 'hard'], ['symbolic']))
@pytest.mark.parametrize('name', COMMANDS)
def test_an_output_that_is_a_link_is_replaced_and_its_target_does_not_change(
    name, kind, out, tmp_path
):
    paths = [out / output for output in COMMANDS[name][1]]
    targets = link(kind, paths, tmp_path / 'outside')
    done = run(name, out)
    assert done.returncode == 0, done.stdout
    assert_replaced(paths, targets)


@pytest.mark.parametrize(('name', 'output'), PIPES)
def test_an_output_that_is_a_pipe_is_rejected(name, output, out):
    pipe = out / output
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    done = run(name, out)
    assert done.returncode == 2, done.stdout
    assert f"{pipe.name}' is a pipe, device or dead link" in done.stdout
    assert pipe.is_fifo()


def test_a_page_that_has_a_pipe_is_not_replaced(out):
    out.mkdir()
    os.mkfifo(out / 'page.json')
    done = run_command_here('web', 'model.onnx', out)
    assert done.returncode == 2
    assert 'contains files that are not part of a page (page.json)' in done.stdout


@pytest.mark.parametrize('kind', ['symbolic', 'hard'])
def test_the_parts_of_a_saved_model_replace_links(kind, out, tmp_path):
    paths = [out / name for name in ('model.safetensors', 'config.json', 'README.md', 'b.jpg')]
    targets = link(kind, paths, tmp_path / 'outside')
    mmeffvit.save_pretrained(mmeffvit.get_model('shvit_s1'), out, picture='images/b.jpg')
    assert_replaced(paths, targets)


def test_a_folder_that_is_a_link_is_used(out, tmp_path):
    (tmp_path / 'disk').mkdir()
    out.symlink_to('disk')
    assert run('browse', out).returncode == 0
    assert [path.name for path in (tmp_path / 'disk').iterdir()] == ['detector_train.png']
    assert out.is_symlink()


def test_a_link_to_a_folder_among_the_visualizations_of_a_test_is_rejected(out, tmp_path):
    (tmp_path / 'mine').mkdir()
    (out / 's').mkdir(parents=True)
    (out / 's' / 'vis_data').symlink_to(tmp_path / 'mine')
    done = run('test a segmentor', out)
    assert done.returncode == 2
    assert "vis_data' is a folder that exists already" in done.stdout
    assert not list((tmp_path / 'mine').iterdir())
