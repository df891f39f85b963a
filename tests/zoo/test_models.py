"""Models by name: in Python and wherever a tool takes a config."""

import dataclasses
from types import MappingProxyType

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope

import mmeffvit
from mmeffvit.cli.main import main
from mmeffvit.errors import UserError
from mmeffvit.models import SwiftFormer
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.folder import base
from mmeffvit.zoo import metafile, read_models
from tests.configs.models import CLASSIFIERS, one_of_each_head_and_family
from tests.conftest import ROOT, output_of, run_python, succeeded
from tests.data.sets import write_yolo
from tests.deploy.web.browser import serve
from tests.released import cvnets, files

NAME = 'ssdlite_mobilevitv2_050'
RELEASE = cvnets.RELEASES[NAME]


@pytest.fixture(scope='module')
def server_folder(tmp_path_factory):
    """A folder that holds the narrowest SSDLite as it is released."""
    folder = tmp_path_factory.mktemp('server')
    files.save_cvnets(files.with_random_weights(RELEASE.network()), folder / f'{RELEASE.stem}.pt')
    torch.save(SwiftFormer('xs').state_dict(), folder / 'xs.pth')
    return folder


@pytest.fixture(scope='module')
def server(server_folder):
    """The address of the narrowest SSDLite on a server."""
    with serve(server_folder) as address:
        yield f'{address}{RELEASE.stem}.pt'


@pytest.fixture
def released(server, tmp_path, monkeypatch):
    """The metafile with the address of the server, and an empty cache of downloads."""
    monkeypatch.setenv('TORCH_HOME', str(tmp_path / 'torch'))
    change(monkeypatch, NAME, weights=server)
    return server


def change(monkeypatch: pytest.MonkeyPatch, name: str, **fields: object) -> None:
    models = dict(metafile.read_models())
    models[name] = dataclasses.replace(models[name], **fields)
    for module in (metafile, base):
        monkeypatch.setattr(module, 'read_models', lambda: MappingProxyType(models))


@pytest.mark.slow
def test_importing_and_building_models_prints_nothing():
    smallest = reversed(one_of_each_head_and_family())
    of_each_head = {name.partition('_')[0]: name for name in smallest}
    names = [*of_each_head.values(), CLASSIFIERS[-1], 'pvtv2_b0']
    build = f'import mmeffvit\nfor name in {names}:\n    mmeffvit.get_model(name)'
    printed = succeeded(run_python('-c', build))
    assert printed == ''


def test_a_released_detector_comes_by_its_name_under_its_license(released, capsys, log):
    model = mmeffvit.get_model(NAME, pretrained=True)
    printed = capsys.readouterr().err
    assert printed.count('license: Apple sample code license') == 1
    assert released in printed
    assert '352 tensors loaded, 12 of them reordered, 0 ignored, 0 missing' in log.text
    assert model.training
    assert len(model.dataset_meta['classes']) == 80
    assert model.cfg.model.backbone.arch == '050'
    mmeffvit.get_model(NAME, pretrained=True)
    assert 'license: Apple' not in capsys.readouterr().err  # it is downloaded once


def test_a_download_is_compared_with_the_recorded_hash(released, monkeypatch):
    change(monkeypatch, NAME, weights=released, weights_sha256='0' * 64)
    with pytest.raises(UserError, match='SHA-256'):
        mmeffvit.get_model(NAME, pretrained=True)


def test_without_a_network_the_message_says_which_file_goes_where(
    released, monkeypatch, tmp_path, capsys
):
    address = 'http://127.0.0.1:9/coco-ssd-mobilevitv2-0.5.pt'
    change(monkeypatch, NAME, weights=address)
    message = (
        rf'(?s)cannot download {address} .*copy it to {tmp_path}.*/coco-ssd-mobilevitv2-0\.5\.pt'
    )
    with pytest.raises(UserError, match=message):
        mmeffvit.get_model(NAME, pretrained=True)
    assert 'license' not in ''.join(capsys.readouterr())  # nothing was downloaded under it


def test_downloaded_weights_are_carried_to_a_machine_without_a_network(
    server_folder, monkeypatch, tmp_path
):
    monkeypatch.setenv('TORCH_HOME', str(tmp_path / 'torch'))
    with serve(server_folder) as address:
        change(monkeypatch, NAME, weights=f'{address}{RELEASE.stem}.pt')
        main(['download', NAME, '--out-dir', str(tmp_path / 'weights')])
    (copy,) = (path for path in (tmp_path / 'weights').rglob('*') if path.is_file())
    assert copy.suffix == '.pt'
    monkeypatch.setenv('TORCH_HOME', str(tmp_path / 'empty'))
    with pytest.raises(UserError, match=r'(?s)mmeffvit download http.* MMEFFVIT_WEIGHTS=DIR'):
        mmeffvit.get_model(NAME, pretrained=True)
    monkeypatch.setenv('MMEFFVIT_WEIGHTS', str(tmp_path / 'weights'))
    assert mmeffvit.get_model(NAME, pretrained=True) is not None
    with pytest.raises(SystemExit):
        main(['download', 'ssdlite_mobilevitv2_5', '--out-dir', str(tmp_path / 'weights')])


def test_the_predictor_finds_weights_by_name(released, tmp_path):
    picture = files.save_picture(tmp_path / 'p.png', 160, 128)
    output_of(
        'predict', NAME, picture, '--out', tmp_path / 'found.json', '--out-dir', tmp_path / 'out'
    )
    assert (tmp_path / 'out' / 'p.png').is_file()


@pytest.mark.slow
def test_a_folder_is_trained_from_released_weights(released, tmp_path):
    root = write_yolo(tmp_path / 'bolts', 4, 2)
    printed = output_of(
        'train', root, '--model', NAME, '--work-dir', tmp_path / 'work', '--freeze', 1, '--epochs',
        1, '--batch', 4, '--nproc-per-node', 1, '--image-size', 96, '--export', 'none',
    )  # fmt: skip
    assert 'license: Apple sample code license' in printed
    assert f'{NAME} from the released {NAME}' in printed
    assert 'from scratch' not in printed
    assert '340 tensors loaded' in printed
    assert '12 randomly initialized for other classes' in printed
    trained = read_content(tmp_path / 'work' / 'run' / 'epoch_1.pth')['state_dict']
    start = mmeffvit.get_model(NAME, pretrained=True).state_dict()
    moved = {key for key in start if key in trained and not torch.equal(start[key], trained[key])}
    assert not [key for key in moved if key.startswith(('backbone.stem', 'backbone.stages.0'))]
    assert [key for key in moved if key.startswith('backbone.stages.4')]
    assert f"load_from = '{released}'" in (tmp_path / 'work' / f'{NAME}.py').read_text()


def test_weights_of_a_path_load_and_other_classes_start_fresh(server, log):
    options = {'model.bbox_head.num_classes': 3}
    model = mmeffvit.get_model(NAME, server, cfg_options=options)
    assert '340 tensors loaded' in log.text
    assert '12 randomly initialized for other classes' in log.text
    assert model.bbox_head.num_classes == 3


@pytest.mark.parametrize(
    ('name', 'head', 'count'),
    [
        ('rtmdet_swiftformer_xs', 'bbox_head', 6),
        ('gflite_shvit_s1', 'bbox_head', 8),
        ('segformer_shvit_s1_ade20k', 'decode_head', 2),
    ],
)
def test_default_models_start_with_fresh_layers_for_other_classes(name, head, count, tmp_path, log):
    torch.save(mmeffvit.get_model(name).state_dict(), tmp_path / 'x.pth')
    options = {f'model.{head}.num_classes': 3}
    mmeffvit.get_model(name, tmp_path / 'x.pth', cfg_options=options)
    assert f'{count} randomly initialized for other classes' in log.text


def test_the_classes_are_those_of_the_weights(tmp_path):
    options = {'model.bbox_head.num_classes': 2}
    model = mmeffvit.get_model(NAME, cfg_options=options)
    meta = dict(dataset_meta=dict(classes=('bolt', 'nut')))
    torch.save(dict(state_dict=model.state_dict(), meta=meta), tmp_path / 'bolts.pth')
    found = mmeffvit.get_model(NAME, tmp_path / 'bolts.pth', cfg_options=options)
    assert found.dataset_meta['classes'] == ('bolt', 'nut')


def test_without_weights_a_model_is_initialized_as_mmdet_does():
    config = Config.fromfile(ROOT / 'configs' / f'{NAME}.py')
    config.model.backbone.init_cfg = None  # its released weights
    with DefaultScope.overwrite_default_scope('mmdet'):
        torch.manual_seed(0)
        expected = MODELS.build(config.model)
        built = {key: value.clone() for key, value in expected.state_dict().items()}
        expected.init_weights()
    torch.manual_seed(0)
    found = mmeffvit.get_model(NAME).state_dict()
    assert all(torch.equal(found[key], value) for key, value in expected.state_dict().items())
    assert not all(torch.equal(found[key], value) for key, value in built.items())


def test_backbones_come_by_name_with_their_arguments(tmp_path):
    source = SwiftFormer('xs')
    torch.save(source.state_dict(), tmp_path / 'xs.pth')
    backbone = mmeffvit.get_model('swiftformer_xs', tmp_path / 'xs.pth', out_indices=(1, 3))
    assert isinstance(backbone, SwiftFormer)
    assert backbone.out_indices == (1, 3)
    assert torch.equal(backbone.stem[0].conv.weight, source.stem[0].conv.weight)
    mobile = mmeffvit.get_model('efficientformerv2_s0', attention='mobile')
    assert any('Mobile' in type(module).__name__ for module in mobile.modules())


@pytest.mark.parametrize('by_name', [True, False])
def test_backbones_come_under_their_license_too(by_name, released, monkeypatch, capsys):
    address = released.replace(f'{RELEASE.stem}.pt', 'xs.pth')
    change(monkeypatch, 'swiftformer_xs', weights=address)
    for _ in range(2):
        if by_name:
            mmeffvit.get_model('swiftformer_xs', pretrained=True)
        else:
            SwiftFormer('xs', init_cfg=dict(type='Pretrained', checkpoint=address)).init_weights()
    printed = capsys.readouterr().err
    assert printed.count('license: Apache-2.0') == printed.count(address) == 1


def test_every_backbone_of_the_table_is_built_by_its_name():
    for name in (name for name, model in read_models().items() if model.config is None):
        with torch.device('meta'):
            assert mmeffvit.get_model(name).recipe['name'] == name


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: mmeffvit.get_model('ssdlite_mobilevit_100'), 'mean ssdlite_mobilevitv2_100'),
        (lambda: mmeffvit.get_model('?'), r"'\?'"),
        (lambda: mmeffvit.list_models(task='detect'), "'detect'.* classification, detection, "),
        (lambda: mmeffvit.list_models(dataset='coco2017'), "'coco2017'.* ADE20K, COCO, "),
        (lambda: mmeffvit.get_model('maskrcnn_swiftformer_l1', True), 'no weights are released'),
        (lambda: mmeffvit.get_model(NAME, out_indices=(1,)), 'give cfg_options with dotted keys'),
        (lambda: mmeffvit.get_model('shvit_s1', cfg_options={}), 'is a backbone and has no config'),
        (lambda: mmeffvit.get_model('shvit_s1', depth=3), "unexpected keyword argument 'depth'"),
        (lambda: mmeffvit.Predictor('ssdlite_mobilevit_100'), 'mean ssdlite_mobilevitv2_100'),
        (lambda: mmeffvit.Predictor('rtmdet_shvit_s1'), 'give a CHECKPOINT; models that have: '),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named_with_what_is(call, message):
    with pytest.raises(UserError, match=message):
        call()
