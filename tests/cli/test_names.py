"""Names of files that are no text or have line breaks never end or split what is printed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmeffvit.data.formats.class_folders import NAME
from mmeffvit.data.prepare import PrepareOptions, read
from mmeffvit.errors import UserError
from tests.conftest import message_of, rejected, run_command_here
from tests.deploy.onnx_files import red_file

NO_TEXT = os.fsdecode(b'\xff')  # a valid name of a file on Linux


def write_image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cv2.imencode('.png', np.full((40, 50, 3), len(path.name), np.uint8))[1])


def run(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    """A command in a process of its own: its standard output has an encoding."""
    command = [sys.executable, '-m', 'mmeffvit', *map(str, arguments)]
    return subprocess.run(command, capture_output=True)


def test_outputs_and_inputs_whose_names_are_no_text_are_written_and_printed(tmp_path):
    model = red_file(tmp_path / 'model.onnx')
    write_image(tmp_path / 'images' / f'{NO_TEXT}.png')
    out = tmp_path / f'{NO_TEXT}_maps'
    done = run('predict', model, tmp_path / 'images', '--out', out, '--out-dir', tmp_path / 'drawn')
    assert done.returncode == 0, done.stderr
    assert b'results: ' in done.stdout
    assert b'\\udcff_maps' in done.stdout
    assert [path.name for path in out.iterdir()] == [f'{NO_TEXT}.png']
    assert [path.name for path in (tmp_path / 'drawn').iterdir()] == [f'{NO_TEXT}.png']


def test_a_category_with_a_line_break_is_named_in_one_line(shapes, tmp_path):
    content = json.loads((shapes / 'annotations' / 'instances_val2017.json').read_text())
    content['categories'][0]['name'] = 'circle\nstar'
    (tmp_path / 'truth.json').write_text(json.dumps(content))
    (tmp_path / 'found.json').write_text('[]')
    found, truth = tmp_path / 'found.json', tmp_path / 'truth.json'
    message = rejected('analyze', 'errors', found, '--ann', truth)
    assert r"name 'circle\nstar' in categories, id 1" in message


def test_a_list_of_images_has_a_line_for_each(tmp_path):
    for name in ('cat/1.png', 'cat/2.png', 'dog/1.png', 'dog/a\nb.png'):
        write_image(tmp_path / 'photos' / name)
    pytest.importorskip('mmpretrain')
    message = rejected(
        'train', tmp_path / 'photos', '--model', 'classifier_shvit_s1', '--weights', 'none',
        '--work-dir', tmp_path / 'work',
    )  # fmt: skip
    assert r'dog/a\nb.png; rename them' in message


@pytest.mark.parametrize('where', ['train', '.'])
def test_a_class_may_be_called_train_inside_of_a_split(where, tmp_path):
    for name in ('train/1.png', 'train/2.png', 'dog/1.png', 'dog/2.png'):
        write_image(tmp_path / where / name)
    if where == 'train':
        data = read(tmp_path, PrepareOptions())
        assert (data.format, data.classes) == (NAME, ['dog', 'train'])
    else:  # a folder of images called train is a split without annotations
        with pytest.raises(UserError, match='is in no known format: it has 4 images'):
            read(tmp_path, PrepareOptions())


@pytest.mark.parametrize('encoding', ['hex', 'rot13', 'zip', 'nothing', 'shift_jis'])
def test_an_xml_file_in_an_encoding_that_is_none_is_named(encoding, tmp_path):
    write_image(tmp_path / '1.png')
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    (tmp_path / '1.xml').write_text(f'{head}<annotation><filename>1.png</filename></annotation>')
    done = run_command_here('check', tmp_path)
    assert message_of(done).endswith('no object in any .xml file to train on')
    assert '1.xml: ' in done.stdout


def test_a_work_dir_whose_name_is_no_text_is_rejected(shapes, tmp_path):
    message = rejected(
        'train', 'maskrcnn_swiftformer_xs_shapes', '--work-dir', tmp_path / NO_TEXT, '--no-check',
        '--cfg-options', f'data_root={shapes}/',
    )  # fmt: skip
    assert 'is not UTF-8: choose another name' in message
