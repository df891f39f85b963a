"""Whatever opens a checkpoint, wherever it lies, no code of it runs."""

from pathlib import Path

import pytest
import torch
from mmengine.runner import checkpoint as mmengine_checkpoint
from mmengine.runner.checkpoint import CheckpointLoader

from mmeffvit.errors import CheckpointError
from mmeffvit.models.checkpoints.read import allow_non_finite
from mmeffvit.train.engine import checkpoint_loader
from mmeffvit.train.engine.checkpoint_loader import load_from_guarded
from tests.conftest import run_python
from tests.deploy.web.browser import Quiet, serve
from tests.hostile.judge import CANARY
from tests.hostile.pickles import BODIES, FORMATS

OURS = "custom_imports = dict(allow_failed_imports=False, imports=['mmeffvit'])"


class Ranged(Quiet):
    """Serves a folder, with ``Range`` and ``If-Range``, as large hosts do."""

    requests: list[str | None] = []
    cut = None  # bytes after which the connection is closed
    tag = '"1"'  # of the file

    def do_GET(self) -> None:  # noqa: N802
        content = Path(self.translate_path(self.path)).read_bytes()
        wanted = self.headers.get('Range')
        self.requests.append(wanted)
        same = self.headers.get('If-Range') == self.tag
        start = int(wanted.removeprefix('bytes=').rstrip('-')) if wanted and same else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header('ETag', self.tag)
        self.send_header('Content-Length', str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : self.cut])


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder behind http, and an empty cache."""
    monkeypatch.setenv('TORCH_HOME', str(tmp_path / 'cache'))
    folder = tmp_path / 'served'
    folder.mkdir()
    Ranged.requests, Ranged.cut, Ranged.tag = [], None, '"1"'
    with serve(folder, handler=Ranged) as address:
        yield folder, address.rstrip('/')


def test_every_scheme_of_mmengine_goes_through_the_same_reader():
    assert set(CheckpointLoader._schemes.values()) == {load_from_guarded}


OTHERS = """
import math
import torch
from mmengine.runner.checkpoint import CheckpointLoader, load_checkpoint

CheckpointLoader.register_scheme('mine://', loader=lambda name, place: dict(mine=name))
CheckpointLoader.register_scheme('s3://', loader=lambda name, place: dict(store=name), force=True)
import mmeffvit

print(CheckpointLoader.load_checkpoint('mine://a'), CheckpointLoader.load_checkpoint('s3://b'))
model = torch.nn.Linear(1, 1)
load_checkpoint(model, 'nan.pth')
print(math.isnan(model.weight.item()))
theirs = torch.load('official.pth', weights_only=True)
print(list(CheckpointLoader.load_checkpoint('official.pth')) == list(theirs))
state = CheckpointLoader.load_checkpoint('mmeffvit://official.pth')['state_dict']
print(sorted(state)[:2])

from pathlib import Path
from mmeffvit.train.engine import checkpoint_loader

checkpoint_loader.copyfile_to_local = lambda name, path, **_: Path(path).write_bytes(b'x')
path = checkpoint_loader.resolve('s3://bucket/a.pth')
print('copied to', path, Path(path).is_file())
"""


@pytest.fixture(scope='module')
def said(tmp_path_factory) -> str:
    """What a program prints that loads files of others."""
    tmp_path = tmp_path_factory.mktemp('others')
    nan = {'weight': torch.full((1, 1), torch.nan), 'bias': torch.ones(1)}
    torch.save(nan, tmp_path / 'nan.pth')
    keys = ('block1.0.norm1.weight', 'patch_embed1.proj.weight', 'head.weight')
    torch.save({key: torch.ones(1) for key in keys}, tmp_path / 'official.pth')
    return run_python('-c', OTHERS, cwd=tmp_path).stdout


def test_the_package_changes_nothing_that_other_models_load(said):
    assert "{'mine': 'mine://a'} {'store': 's3://b'}" in said, said
    assert said.splitlines().count('True') == 2, said
    assert (
        "['backbone.stages.0.blocks.0.attention_norm.weight', 'backbone.stem.conv.weight']" in said
    )


def test_a_copy_of_a_file_in_a_store_is_removed_at_the_end(said):
    path, existed = said.partition('copied to ')[2].split()
    assert existed == 'True'
    assert Path(path).name == 'a.pth'
    assert not Path(path).parent.exists()


def test_our_commands_reject_lost_weights_of_every_module(tmp_path):
    torch.save({'weight': torch.full((1, 1), torch.nan)}, tmp_path / 'nan.pth')
    with allow_non_finite(False), pytest.raises(CheckpointError, match='NaN or infinite values'):
        CheckpointLoader.load_checkpoint(str(tmp_path / 'nan.pth'))
    with allow_non_finite(True):
        assert CheckpointLoader.load_checkpoint(str(tmp_path / 'nan.pth'))['weight'].isnan().all()


def test_names_of_model_zoos_lead_to_the_same_reader(served, monkeypatch):
    folder, address = served
    # in the old format, which plain torch.hub would run
    (folder / 'payload.pth').write_bytes(FORMATS['pickle'](BODIES['os.system']))
    zoo = {'resnet50': f'{address}/payload.pth'}
    monkeypatch.setitem(checkpoint_loader.NAMED, 'torchvision://', lambda: zoo)
    with pytest.raises(CheckpointError, match=r'is rejected|not a torch checkpoint'):
        mmengine_checkpoint._load_checkpoint('torchvision://resnet50')
    with pytest.raises(CheckpointError, match="has no 'resnet51'; did you mean resnet50"):
        mmengine_checkpoint._load_checkpoint('torchvision://resnet51')
    assert not Path(CANARY).exists()


@pytest.fixture
def interrupted(served) -> tuple[Path, str, dict]:
    """A file, its address and content; its download has ended after a million bytes."""
    folder, address = served
    state = {'weight': torch.arange(600_000.0)}
    torch.save(state, folder / 'large.pth')
    Ranged.cut = 1_000_000
    words = r'ended after 1,000,000 of [\d,]+ bytes.*the same command resumes it'
    with pytest.raises(CheckpointError, match=words):
        load_from_guarded(f'{address}/large.pth')
    Ranged.cut = None
    return folder / 'large.pth', f'{address}/large.pth', state


def test_an_interrupted_download_is_resumed_and_never_taken_for_complete(interrupted):
    _, address, state = interrupted
    torch.testing.assert_close(load_from_guarded(address), state)
    assert Ranged.requests == [None, 'bytes=1000000-']
    load_from_guarded(address)  # from the cache
    assert len(Ranged.requests) == 2


@pytest.mark.parametrize(
    'note',
    [b'', b'{', b'[' * 100_000, b'5', b'\xff', b'"a\\r\\nX-Header: b"', b'null', None],
    ids=lambda note: repr(note)[:20],
)
def test_a_damaged_note_of_an_interrupted_download_starts_it_anew(note, interrupted, tmp_path):
    _, address, state = interrupted
    (path,) = (tmp_path / 'cache').rglob('*.part.json')
    if note is None:
        path.unlink()
    else:
        path.write_bytes(note)
    torch.testing.assert_close(load_from_guarded(address), state)
    assert Ranged.requests == [None, None]


def test_a_download_that_was_interrupted_at_its_very_end_starts_anew(interrupted, tmp_path):
    path, address, state = interrupted
    (part,) = (tmp_path / 'cache').rglob('*.part')
    part.write_bytes(path.read_bytes())
    torch.testing.assert_close(load_from_guarded(address), state)
    assert Ranged.requests[0] is Ranged.requests[2] is None  # the second is out of range


def test_another_file_at_the_same_address_is_not_joined_with_the_first(interrupted):
    path, address, _ = interrupted
    Ranged.tag = '"2"'
    state = {'weight': torch.ones(600_000)}
    torch.save(state, path)
    torch.testing.assert_close(load_from_guarded(address), state)
    assert Ranged.requests == [None, 'bytes=1000000-']


def test_a_file_is_compared_with_the_hash_in_its_name(served):
    folder, address = served
    torch.save({'weight': torch.ones(1)}, folder / 'resnet-0a1b2c3d.pth')
    with pytest.raises(CheckpointError, match='not 0a1b2c3d: it was changed'):
        load_from_guarded(f'{address}/resnet-0a1b2c3d.pth')


@pytest.mark.parametrize(
    'text',
    [
        'import os',
        'a = print()',
        "custom_imports = dict(imports=['antigravity'])",
        'a = dict(**b)',
        "_base_ = '/tmp/base.py'",
        'a[0] = 1',
        '[a for a in b]',
        "a = '{{ $HOME:1 }}'",
        'a = ' + '-' * 100_000 + '1',
        '\0',
        None,
        b'a = 1',
    ],
)
def test_a_config_inside_a_checkpoint_that_does_more_is_left_out(text, tmp_path):
    hub = dict(runtime_info=dict(cfg=text, seed=1))
    content = dict(meta=dict(config=text, cfg=OURS), message_hub=hub, state_dict={})
    torch.save(content, tmp_path / 'file.pth')
    loaded = load_from_guarded(str(tmp_path / 'file.pth'))
    assert loaded['meta'] == dict(cfg=OURS)
    assert loaded['message_hub']['runtime_info'] == dict(seed=1)
