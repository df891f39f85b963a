"""Names of files that are no text or have line breaks never end or split what is printed."""

import os
import subprocess
import sys

import pytest

from tests.conftest import rejected
from tests.data import layouts
from tests.deploy.onnx_files import red_file

NO_TEXT = os.fsdecode(b'\xff')  # a valid name of a file on Linux


def run(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    """A command in a process of its own: its standard output has an encoding."""
    command = [sys.executable, '-m', 'mmeffvit', *map(str, arguments)]
    return subprocess.run(command, capture_output=True)


def test_outputs_and_inputs_whose_names_are_no_text_are_written_and_printed(tmp_path):
    model = red_file(tmp_path / 'model.onnx')
    layouts.write(tmp_path / 'images', {f'{NO_TEXT}.png': layouts.IMAGE})
    out, drawn = tmp_path / f'{NO_TEXT}_maps', tmp_path / 'drawn'
    done = run('predict', model, tmp_path / 'images', '--label-map-dir', out, '--out-dir', drawn)
    assert done.returncode == 0, done.stderr
    assert b'label maps: ' in done.stdout
    assert b'\\udcff_maps' in done.stdout
    assert [path.name for path in out.iterdir()] == [f'{NO_TEXT}.png']
    assert [path.name for path in drawn.iterdir()] == [f'{NO_TEXT}.png']


def test_a_list_of_images_has_a_line_for_each(tmp_path):
    names = ('cat/1.png', 'cat/2.png', 'dog/1.png', 'dog/a\nb.png')
    layouts.write(tmp_path / 'photos', dict.fromkeys(names, layouts.IMAGE))
    pytest.importorskip('mmpretrain')
    message = rejected(
        'train', tmp_path / 'photos', '--model', 'classifier_shvit_s1', '--weights', 'none',
        '--work-dir', tmp_path / 'work',
    )  # fmt: skip
    assert r'dog/a\nb.png; rename them' in message


def test_a_work_dir_whose_name_is_no_text_is_rejected(shapes, tmp_path):
    message = rejected(
        'train', 'maskrcnn_swiftformer_xs_shapes', '--work-dir', tmp_path / NO_TEXT, '--no-check',
        '--cfg-options', f'data_root={shapes}/',
    )  # fmt: skip
    assert 'is not UTF-8: choose another name' in message
