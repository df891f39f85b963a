"""No command overwrites unrelated files; they are reported before any work."""

import pytest

from tests.conftest import run_command_here

# what each command takes before its output, none of which exists
FILES = {
    'complexity': ('SHViT:s1', '--json'),
    'convert': ('no.pth',),
    'export': ('no.py', 'no.pth'),
    'analyze curves': ('no', '--out'),
    'predict': ('no.py', 'no.pth', 'no.jpg', '--out'),
    'profile': ('no.onnx', '--json'),
    'prune': ('no.py', 'no.pth', '--out'),
    'quantize': ('no.onnx', 'no'),
    'test': ('no.py', 'no.pth', '--out'),
}
FOLDERS = {
    'analyze errors': ('no.pkl', '--out-dir'),
    'analyze heads': ('no.py', 'no.pth', '--out'),
    'suite': ('no.py', '--work-dir'),
    'browse': ('no.py', '--out-dir'),
    'demo': ('--out',),
    'analyze per-class': ('no.py', 'no.pkl', '--out-dir'),
    'predict': ('no.py', 'no.pth', 'no.jpg', '--out-dir'),
    'test': ('no.py', 'no.pth', '--show-dir'),
    'train': ('no.py', '--work-dir'),
    'analyze attention': ('SHViT:s1', 'no.jpg', '--out'),
    'web': ('no.onnx',),
}


@pytest.mark.parametrize('tool', FILES)
def test_a_folder_is_never_replaced_by_a_file(tool, tmp_path):
    out = tmp_path / 'out.json'
    out.mkdir()
    (out / 'image.jpg').write_bytes(b'mine')
    run = run_command_here(*tool.split(), *FILES[tool], out)
    assert run.returncode == 2
    assert f'{str(out)!r} is a folder that exists already' in run.stdout
    assert (out / 'image.jpg').read_bytes() == b'mine'


@pytest.mark.parametrize('tool', FOLDERS)
@pytest.mark.parametrize('below', [False, True])
def test_a_file_is_never_taken_for_a_folder(tool, below, tmp_path):
    file = tmp_path / 'notes'
    file.write_bytes(b'mine')
    out = file / 'deeper' / 'out' if below else file
    run = run_command_here(*tool.split(), *FOLDERS[tool], out)
    assert run.returncode == 2
    assert ('is not a folder' if below else 'is a file that exists already') in run.stdout
    assert file.read_bytes() == b'mine'
