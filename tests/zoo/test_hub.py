"""Models as folders: what is written, and that it is read back bit for bit."""

import json
import shutil

import cv2
import pytest
import torch
import yaml
from mmengine.config import Config
from torch import nn

import mmeffvit
from mmeffvit.config.load import own_configs
from mmeffvit.errors import UserError
from mmeffvit.zoo import hub
from tests.conftest import run_python
from tests.released import cvnets, files
from tests.released.test_loading import transformers_key

SSD = 'ssdlite_mobilevitv2_050'


@pytest.fixture(scope='module')
def detector() -> nn.Module:
    model = mmeffvit.get_model(SSD, cfg_options={'model.bbox_head.num_classes': 3})
    model.dataset_meta = dict(classes=('nut', 'bolt', 'screw'), palette=[(1, 2, 3)] * 3)
    return files.with_random_weights(model)


@pytest.fixture(scope='module')
def saved(detector, tmp_path_factory):
    folder = tmp_path_factory.mktemp('saved') / 'bolts'
    picture = files.save_picture(folder.parent / 'p.png', 90, 70)
    metrics = {'box AP': 41.5}
    return mmeffvit.save_pretrained(
        detector, folder, metrics=metrics, license='CC0-1.0', picture=picture
    )


def assert_same(model: nn.Module, other: nn.Module) -> None:
    ours, theirs = model.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[key]) for key, value in ours.items())


def test_a_detector_with_classes_of_its_own_comes_back_bit_for_bit(detector, saved):
    again = mmeffvit.get_model(str(saved))
    assert_same(again, detector)
    assert again.bbox_head.num_classes == 3
    assert again.dataset_meta['classes'] == ['nut', 'bolt', 'screw']
    image = torch.rand(1, 3, 96, 128)
    with torch.no_grad():
        for ours, theirs in zip(again.eval()(image), detector(image), strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_the_folder_holds_weights_names_and_numbers_and_a_card(saved):
    names = sorted(path.name for path in saved.iterdir())
    assert names == ['README.md', 'config.json', 'model.safetensors', 'p.png']
    said = json.loads((saved / 'config.json').read_text())['mmeffvit']
    assert said['name'] == SSD
    assert said['cfg_options'] == {'model.bbox_head.num_classes': 3}
    _, facts, card = (saved / 'README.md').read_text().split('---\n', 2)
    facts = yaml.safe_load(facts)
    assert facts['pipeline_tag'] == 'object-detection'
    assert facts['license_name'] == 'CC0-1.0'
    for part in ('41.5 box AP', "21.24 box AP (authors' model zoo)", '3: nut, bolt, screw',
                 "get_model('FOLDER')", '![what it finds](p.png)', 'COCO'):  # fmt: skip
        assert part in card
    assert cv2.imread(str(saved / 'p.png')).shape == (70, 90, 3)


@pytest.mark.parametrize('name', ['pspnet_mobilevitv2_050_voc12', 'maskrcnn_shvit_s4'])
def test_other_heads_come_back_too(name, tmp_path):
    model = files.with_random_weights(mmeffvit.get_model(name))
    again = mmeffvit.get_model(str(mmeffvit.save_pretrained(model, tmp_path / name)))
    assert_same(again, model)
    assert again.dataset_meta['classes'] == list(model.dataset_meta['classes'])


def test_a_backbone_comes_back_with_its_arguments(tmp_path):
    options = dict(attention='mobile', out_indices=(1, 2, 3))
    backbone = files.with_random_weights(mmeffvit.get_model('efficientformerv2_s0', **options))
    again = mmeffvit.get_model(str(mmeffvit.save_pretrained(backbone, tmp_path / 's0')))
    assert_same(again, backbone)
    assert again.out_indices == (1, 2, 3)


CODE = """
import mmeffvit, torch
for address in {addresses}:
    try:
        model = mmeffvit.get_model(address)
        print(address, float(sum(v.double().sum() for v in model.state_dict().values())))
    except mmeffvit.zoo.models.UserError as error:
        print(address, 'refused:', error)
"""


def test_repositories_in_the_cache_of_the_hub_are_read_offline(saved, detector, tmp_path):
    """In a process of its own: the library of the hub reads its settings when it is imported."""
    release = next(r for r in cvnets.RELEASES if r.config == 'deeplabv3_mobilevitv2_100_voc12')
    network = files.with_random_weights(release.network())
    theirs = {
        transformers_key(key): value
        for key, value in network.state_dict().items() if 'aux_head' not in key
    }  # fmt: skip
    for owner, name in (('me', 'bolts'), ('apple', 'mobilevitv2-1.0-voc-deeplabv3')):
        repository = tmp_path / 'hub' / f'models--{owner}--{name}'
        snapshot = repository / 'snapshots' / ('0' * 40)
        (repository / 'refs').mkdir(parents=True)
        (repository / 'refs' / 'main').write_text('0' * 40)
        if owner == 'me':
            shutil.copytree(saved, snapshot)
            continue
        snapshot.mkdir(parents=True)
        torch.save(theirs, snapshot / 'pytorch_model.bin')
        config = dict(architectures=['MobileViTV2ForSemanticSegmentation'])
        (snapshot / 'config.json').write_text(json.dumps(config))
    addresses = ['hf://me/bolts', 'hf://apple/mobilevitv2-1.0-voc-deeplabv3', 'hf://me/gone']
    env = {'HF_HOME': str(tmp_path), 'HF_HUB_OFFLINE': '1'}
    done = run_python('-c', CODE.format(addresses=addresses), env=env)
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith('hf://')}
    total = float(sum(value.double().sum() for value in detector.state_dict().values()))
    assert float(lines[addresses[0]].split()[1]) == total, done.stdout
    assert 'refused' not in lines[addresses[1]]
    assert 'download https://huggingface.co/me/gone/resolve/main/' in lines[addresses[2]]


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (dict(name='nothing'), 'names no model of this version'),
        (dict(cfg_options={'model.backbone.type': 'os.system'}), 'more than numbers of the model'),
        (dict(cfg_options={'custom_imports': 1}), 'more than numbers of the model'),
        (dict(cfg_options={'model.bbox_head.num_classes': 4}), 'of another shape'),
        (dict(name='shvit_s1', arguments=dict(init_cfg=1)), 'it names other weights'),
    ],
)
def test_a_folder_that_asks_for_more_than_names_and_numbers_is_refused(
    saved, tmp_path, change, message
):
    folder = shutil.copytree(saved, tmp_path / 'changed')
    content = json.loads((folder / 'config.json').read_text())
    content['mmeffvit'].update(change)
    (folder / 'config.json').write_text(json.dumps(content))
    with pytest.raises(UserError, match=message):
        mmeffvit.get_model(str(folder))


def test_what_cannot_be_saved_is_named(detector, tmp_path, monkeypatch):
    some = {name: own_configs()[name] for name in ('pspnet_mobilevitv2_050_voc12', SSD)}
    monkeypatch.setattr(hub, 'own_configs', lambda: some)  # reading all takes a quarter minute
    with pytest.raises(UserError, match='carries no config'):
        mmeffvit.save_pretrained(nn.Linear(1, 1), tmp_path / 'x')
    model = mmeffvit.get_model(SSD)
    model.cfg.model.bbox_head.type = 'SSDHead'
    with pytest.raises(UserError, match='in more than numbers'):
        mmeffvit.save_pretrained(model, tmp_path / 'x')
    with pytest.raises(UserError, match=r"'gone\.png' is no file"):
        mmeffvit.save_pretrained(detector, tmp_path / 'x', picture='gone.png')
    assert not (tmp_path / 'x').exists()


def test_a_hub_that_cannot_be_reached_is_an_error_in_one_line(tmp_path):
    code = (
        "import mmeffvit\nmodel = mmeffvit.get_model('shvit_s1')\n"
        "try:\n    mmeffvit.push_to_hub(model, 'me/shvit')\n"
        "except mmeffvit.zoo.models.UserError as error:\n    print('refused:', error)\n"
    )
    env = {'HF_HOME': str(tmp_path), 'HF_ENDPOINT': 'http://127.0.0.1:9', 'HF_TOKEN': 'hf_none'}
    said = run_python('-c', code, env=env).stdout
    assert "refused: 'me/shvit' cannot be pushed" in said
    assert 'save_pretrained(model, FOLDER)' in said


def test_a_model_of_a_config_with_another_name_is_told_by_its_structure(monkeypatch, tmp_path):
    some = {name: own_configs()[name] for name in ('ssdlite_mobilevitv2_075', SSD)}
    monkeypatch.setattr(hub, 'own_configs', lambda: some)
    model = mmeffvit.get_model(SSD)
    model.cfg.dump(tmp_path / 'mine.py')
    model.cfg = Config.fromfile(tmp_path / 'mine.py')
    mmeffvit.save_pretrained(model, tmp_path / 'mine')
    assert_same(mmeffvit.get_model(str(tmp_path / 'mine')), model)
