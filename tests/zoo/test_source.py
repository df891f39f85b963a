"""What a user names is of one kind, wherever it is named."""

import pytest
import torch

from mmeffvit.config.load import load_config
from mmeffvit.errors import UserError
from mmeffvit.zoo.source import Kind, classify, find_source

SSD = 'ssdlite_mobilevitv2_050'
FILES = (
    'mine.py', 'mine', 'model.onnx', 'saved/config.json', 'saved/model.safetensors',
    'photos/a.jpg', 'photos/config.json', 'photos/script.py', 'run_of_a_tool/script.py',
    'shvit_s2/config.json', 'shvit_s2/model.safetensors',
)  # fmt: skip
KINDS = {
    SSD: Kind.CONFIG, 'mine.py': Kind.CONFIG, 'no.py': Kind.CONFIG, 'mine': Kind.CONFIG,
    'run_of_a_tool': Kind.RUN, 'run_of_a_folder': Kind.RUN,
    'saved': Kind.SAVED, 'shvit_s2': Kind.SAVED, 'hf://me/bolts': Kind.SAVED,
    'run_of_a_tool/epoch_1.pth': Kind.CHECKPOINT, 'hf://me/bolts/a.safetensors': Kind.CHECKPOINT,
    'model.onnx': Kind.EXPORTED, 'model.mlpackage': Kind.EXPORTED,
    'photos/a.jpg': Kind.OTHER, 'data.zip': Kind.OTHER,
    'photos': Kind.FOLDER, '.': Kind.FOLDER,
    'shvit_s1': Kind.NAME, 'SHViT:s4': Kind.NAME, 'https://host/model': Kind.NAME,
}  # fmt: skip


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / 'run_of_a_folder' / 'run'
    for folder in ('run_of_a_tool', 'saved', 'photos', 'shvit_s1', 'shvit_s2', SSD, run):
        (tmp_path / folder).mkdir(parents=True)
    for name in FILES:
        (tmp_path / name).write_text('open("executed", "w")')
    for folder in (tmp_path / 'run_of_a_tool', run):
        load_config(SSD).dump(folder / 'config.py')
        torch.save({}, folder / 'epoch_1.pth')
    yield
    assert not (tmp_path / 'executed').exists()


@pytest.mark.parametrize('target', KINDS)
def test_a_target_is_of_one_kind_and_no_file_is_executed_to_find_it(target):
    assert classify(target) is KINDS[target]


@pytest.mark.parametrize('target', ['model.onnx', 'photos/a.jpg', 'photos', 'gone.pth', 'data.zip'])
def test_what_has_no_config_is_named_with_what_it_is(target):
    is_there = target in FILES or target == 'photos'
    what = f'is {KINDS[target].value}' if is_there else 'does not exist'
    with pytest.raises(UserError, match=f'^{target!r} {what}'):
        find_source(target)


def test_a_run_with_the_name_of_a_model_is_the_run():
    load_config(SSD).dump(f'{SSD}/config.py')
    torch.save({}, f'{SSD}/epoch_1.pth')
    assert classify(SSD) is Kind.RUN
