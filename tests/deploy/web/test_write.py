"""A page is written whole, with the recorded runtime, and replaces pages alone."""

import json
from pathlib import Path

import pytest

from mmeffvit.deploy.web import page, runtime
from mmeffvit.errors import UserError
from tests.conftest import rejected, run_command_here
from tests.deploy.onnx_files import red_file


def test_the_page_loads_the_pinned_runtime_and_nothing_else_from_elsewhere(tmp_path):
    out = tmp_path / 'page'
    said = page.write_page(red_file(tmp_path / 'model.onnx'), out)
    assert f'python -m http.server -d {out}' in said
    written = json.loads((out / 'page.json').read_text())
    assert set(written['files']) == {path.name for path in out.iterdir()}
    for parts in written['runtime'].values():
        for part in parts.values():
            folder, _, name = part['address'].rpartition('/')
            assert folder == 'https://cdn.jsdelivr.net/npm/onnxruntime-web@1.30.0/dist'
            assert part['integrity'] == runtime.FILES[name]
    for path in page.STATIC.iterdir():
        assert path.read_text().count('https://') == (path.name == 'index.html'), path


def test_another_archive_than_the_recorded_one_is_rejected(runtime_files, tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, 'ARCHIVE', 'sha512-AAAA')
    out = tmp_path / 'page'
    with pytest.raises(UserError, match=r'has the hash sha512-q0y.*, not sha512-AAAA'):
        page.write_page(red_file(tmp_path / 'model.onnx'), out, bundle=True)
    assert not out.exists()
    monkeypatch.setenv('PATH', '')
    with pytest.raises(UserError, match='npm is not installed'):
        runtime.fetch_runtime()


def test_an_earlier_page_is_replaced_and_a_folder_with_other_files_is_not(tmp_path):
    out, model = tmp_path / 'page', red_file(tmp_path / 'model.onnx')
    out.mkdir()
    out.chmod(0o2775)
    before = out.stat()
    for _ in range(2):
        page.write_page(model, out)
    assert (out.stat().st_ino, out.stat().st_mode) == (before.st_ino, before.st_mode)
    other = red_file(tmp_path / 'other.onnx')
    (out / 'notes.txt').write_text('mine')
    assert 'not part of a page (notes.txt): choose another folder' in rejected('web', other, out)
    listed = json.loads((out / 'page.json').read_text())
    listed['files'].append('notes.txt')  # a list does not make it a file of ours
    (out / 'page.json').write_text(json.dumps(listed))
    assert rejected('web', other, out)
    assert (out / 'notes.txt').read_text() == 'mine'
    (out / 'notes.txt').unlink()
    for damaged in ('[' * 200_000, '5', '{"files": 5}', '{"files": [[]]}'):
        (out / 'page.json').write_text(damaged)
        assert 'that are not part of a page' in rejected('web', other, out)
    (out / 'page.json').write_text(json.dumps(listed))
    assert run_command_here('web', other, out).returncode == 0
    assert json.loads((out / 'page.json').read_text())['name'] == 'other.onnx'
    assert sorted(path.name for path in tmp_path.iterdir()) == ['model.onnx', 'other.onnx', 'page']


def interrupt(*arguments: Path) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_command_leaves_the_earlier_page(tmp_path, monkeypatch):
    out, model = tmp_path / 'page', red_file(tmp_path / 'model.onnx')
    page.write_page(model, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    monkeypatch.setattr(page, 'check_folder', interrupt)
    with pytest.raises(KeyboardInterrupt):
        page.write_folder(out, {'index.html': b'new'})
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ['model.onnx', 'page']


def test_a_killed_command_leaves_no_page_and_the_next_one_replaces_it(tmp_path, monkeypatch):
    out, bundled = tmp_path / 'page', next(iter(runtime.FILES))
    page.write_folder(out, dict.fromkeys((bundled, 'index.html'), b'old') | {
        page.PAGE: json.dumps(dict(name='old', files=[bundled, 'index.html', page.PAGE])).encode()
    })  # fmt: skip
    (out / '.page.json.0123abcd.mmeffvit-partial').mkdir()  # of a killed process
    with monkeypatch.context() as patch:
        patch.setattr(page, 'publish', interrupt)
        with pytest.raises(KeyboardInterrupt):
            page.write_folder(out, {'index.html': b'new', page.PAGE: b'new'})
    assert set(json.loads((out / page.PAGE).read_text())) == {'files'}
    page.write_page(red_file(tmp_path / 'model.onnx'), out)
    written = json.loads((out / page.PAGE).read_text())
    assert {path.name for path in out.iterdir() if path.is_file()} == set(written['files'])


@pytest.mark.parametrize(
    ('shape', 'how', 'words'),
    [
        ((4, 3, 'h', 'w'), {}, ('batches of 4 images', '--batch 1')),
        ((1, 3, 64, 5000), {}, ('5,000 pixels per side', '--shape')),
        ((1, 3, 'h', 'w'), dict(scale=[9000, 800]), ('9,000 pixels per side', '4,096')),
        ((1, 3, 'h', 'w'), dict(interpolation='area'), ('with cv2 area', 'pillow bicubic')),
        ((1, 3, 'h', 'w'), dict(crop=[64, 64]), ('crops images',)),
        ((1, 3, 'h', 'w'), dict(decoder='pillow'), ('reads them with Pillow',)),
        ((1, 'h', 'w'), {}, ('not one batch of images',)),
    ],
)
def test_a_file_that_a_browser_cannot_run_is_one_message(shape, how, words, tmp_path):
    model = red_file(tmp_path / 'model.onnx', shape, **how)
    message = rejected('web', model, tmp_path / 'page')
    assert all(word in message for word in words), message
    assert not (tmp_path / 'page').exists()


def test_a_file_of_another_runtime_is_rejected(tmp_path):
    with pytest.raises(UserError, match=r"has the suffix '\.xml'"):
        page.write_page(tmp_path / 'model.xml', tmp_path / 'page')
