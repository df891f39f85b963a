"""Models as folders: what is written, and that it is read back bit for bit."""

import json
import shutil
from unittest import mock

import cv2
import huggingface_hub
import pytest
import torch
import yaml
from huggingface_hub import HfApi
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import nn

import mmeffvit
from mmeffvit.config.load import own_configs
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.zoo import nearest
from mmeffvit.zoo.source import find_source
from tests.conftest import run_command_here, run_python
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
    assert again.dataset_meta['classes'] == ('nut', 'bolt', 'screw')
    image = torch.rand(1, 3, 96, 128)
    with torch.no_grad():
        for ours, theirs in zip(again.eval()(image), detector(image), strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_the_folder_holds_weights_names_and_numbers_and_a_card(saved):
    names = sorted(path.name for path in saved.iterdir())
    assert names == ['README.md', 'config.json', 'model.safetensors', 'p.png']
    content = json.loads((saved / 'config.json').read_text())['mmeffvit']
    assert content['name'] == SSD
    assert content['cfg_options'] == {'model.bbox_head.num_classes': 3}
    _, facts, card = (saved / 'README.md').read_text().split('---\n', 2)
    facts = yaml.safe_load(facts)
    assert facts['pipeline_tag'] == 'object-detection'
    assert facts['license_name'] == 'CC0-1.0'
    for part in ('41.5 box AP', "21.24 box AP (authors' model zoo)", '3: nut, bolt, screw',
                 "get_model('FOLDER')", '![what it finds](p.png)', 'COCO'):  # fmt: skip
        assert part in card
    assert cv2.imread(str(saved / 'p.png')).shape == (70, 90, 3)


def test_a_backbone_comes_back_with_its_arguments(tmp_path):
    options = dict(attention='mobile', out_indices=(1, 2, 3))
    backbone = files.with_random_weights(mmeffvit.get_model('efficientformerv2_s0', **options))
    again = mmeffvit.get_model(str(mmeffvit.save_pretrained(backbone, tmp_path / 's0')))
    assert_same(again, backbone)
    assert again.out_indices == (1, 2, 3)


def test_the_predictor_takes_a_saved_folder(detector, saved, tmp_path):
    picture = files.save_picture(tmp_path / 'p.png', 160, 128)
    predictor = mmeffvit.Predictor(str(saved), device='cpu')
    assert_same(predictor.model, detector)
    assert predictor.classes == ('nut', 'bolt', 'screw')
    found = predictor(picture, out_dir=tmp_path / 'out')
    assert set(found.names) <= {'nut', 'bolt', 'screw'}
    assert len(found) > 0
    assert (tmp_path / 'out' / 'p.png').is_file()


def test_the_tools_take_a_saved_folder(shapes, tmp_path):
    from mmeffvit.data.shapes import CLASSES

    model = mmeffvit.get_model(SSD, cfg_options={'model.bbox_head.num_classes': len(CLASSES)})
    model.dataset_meta = dict(classes=CLASSES)
    folder = mmeffvit.save_pretrained(files.with_random_weights(model), tmp_path / SSD)
    data = ['--cfg-options', f'data_root={shapes}', 'test_dataloader.num_workers=0']
    out = tmp_path / 'found.pkl'
    done = run_command_here('test', folder, '--work-dir', tmp_path / 'run', '--out', out, *data)
    assert done.returncode == 0, done.stdout
    assert 'box AP' in done.stdout
    loaders = [f'{split}_dataloader.num_workers=0' for split in ('train', 'val')]
    data += ['train_dataloader.dataset.indices=2', 'train_dataloader.batch_size=2', *loaders]
    data += ['train_cfg.max_epochs=1', 'train_cfg.val_interval=9', 'optim_wrapper.optimizer.lr=0']
    done = run_command_here('train', folder, '--work-dir', tmp_path / 'tuned', '--no-check', *data)
    assert done.returncode == 0, done.stdout
    tuned = read_content(tmp_path / 'tuned' / 'epoch_1.pth')['state_dict']
    assert torch.equal(tuned['neck.pooled.1.weight'], model.neck.pooled[1].weight)


def test_a_segmentor_with_classes_of_its_own_predicts_them(tmp_path):
    name = 'pspnet_mobilevitv2_050_ade20k'
    counts = {f'model.{head}_head.num_classes': 2 for head in ('decode', 'auxiliary')}
    model = files.with_random_weights(mmeffvit.get_model(name, cfg_options=counts))
    model.dataset_meta = dict(classes=('road', 'no road'), palette=[[1, 2, 3], [4, 5, 6]])
    folder = str(mmeffvit.save_pretrained(model, tmp_path / 'roads'))
    config = find_source(folder).config
    dataset = config.test_dataloader.dataset
    assert (dataset.type, dataset.metainfo.classes) == ('BaseSegDataset', ('road', 'no road'))
    assert 'reduce_zero_label' not in str([dataset, config.tta_pipeline])  # 0 is `road`
    options = {'test_dataloader.dataset.pipeline.1.scale': (8192, 64)}
    predictor = mmeffvit.Predictor(folder, device='cpu', cfg_options=options)
    found = predictor(files.save_picture(tmp_path / 'p.png', 80, 64))
    assert_same(predictor.model, model)
    assert predictor.classes == found.classes == ('road', 'no road')
    assert found.labels.max() <= 1


def test_the_folder_of_a_backbone_is_no_model_for_the_predictor(tmp_path):
    folder = mmeffvit.save_pretrained(mmeffvit.get_model('shvit_s1'), tmp_path / 'backbone')
    with pytest.raises(UserError, match='shvit_s1: load it with get_model'):
        mmeffvit.Predictor(folder)


def test_a_folder_named_as_a_model_is_taken_only_if_it_holds_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'shvit_s1').mkdir()
    backbone = files.with_random_weights(mmeffvit.get_model('shvit_s1'))
    mmeffvit.save_pretrained(backbone, 'shvit_s1')
    assert_same(mmeffvit.get_model('shvit_s1'), backbone)


def test_a_folder_in_the_layout_of_transformers_is_read(tmp_path):
    release = next(r for r in cvnets.RELEASES if r.config == 'deeplabv3_mobilevitv2_050_voc12')
    state = files.with_random_weights(release.network()).state_dict()
    theirs = {transformers_key(k): value for k, value in state.items() if 'aux_head' not in k}
    torch.save(theirs, tmp_path / 'pytorch_model.bin')
    config = dict(architectures=['MobileViTV2ForSemanticSegmentation'])
    (tmp_path / 'config.json').write_text(json.dumps(config))
    model = mmeffvit.get_model(str(tmp_path))
    assert model.cfg.model.decode_head.type == 'mmeffvit.SlimASPPHead'
    weight = theirs['mobilevitv2.conv_stem.convolution.weight']
    assert torch.equal(model.backbone.stem.conv.weight, weight)


CODE = """
import mmeffvit
for address in ('hf://me/bolts', 'hf://me/gone'):
    try:
        state = mmeffvit.get_model(address).state_dict()
        print(address, float(sum(v.double().sum() for v in state.values())))
    except mmeffvit.zoo.models.UserError as error:
        print(address, 'rejected:', error)
"""


def test_a_repository_in_the_cache_of_the_hub_is_read_offline(saved, detector, tmp_path):
    """In a process of its own: the library of the hub reads its settings when it is imported."""
    repository = tmp_path / 'hub' / 'models--me--bolts'
    shutil.copytree(saved, repository / 'snapshots' / ('0' * 40))
    (repository / 'refs').mkdir()
    (repository / 'refs' / 'main').write_text('0' * 40)
    done = run_python('-c', CODE, env={'HF_HOME': str(tmp_path), 'HF_HUB_OFFLINE': '1'})
    lines = [line for line in done.stdout.splitlines() if line.startswith('hf://')]
    total = float(sum(value.double().sum() for value in detector.state_dict().values()))
    assert float(lines[0].split()[1]) == total, done.stdout
    assert 'rejected' in lines[1]
    assert 'download https://huggingface.co/me/gone/resolve/main/' in done.stdout


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (dict(name='nothing'), 'names no model of this version'),
        (dict(cfg_options={'model.backbone.type': 'os.system'}), 'must be numbers of the model'),
        (dict(cfg_options={'custom_imports': 1}), 'must be numbers of the model'),
        (dict(cfg_options={'model.bbox_head.num_classes': 4}), 'of another shape'),
        (dict(name='shvit_s1', arguments=dict(init_cfg=1)), 'without other weights'),
        (dict(name='shvit_s1', arguments=dict(arch=10**9)), 'without other weights'),
        (dict(name=['shvit_s1']), 'must be the name of a model'),
        (dict(name=None), 'lacks mmeffvit.name'),
        (dict(cfg_options=[1]), 'must be numbers of the model'),
        (dict(cfg_options={'model.test_cfg.nms_pre': -1}), r'nms_pre is -1; it must be like \d+'),
        (dict(cfg_options={'model.bbox_head.num_classes': 10**9}), 'from 0 to 65536'),
        (dict(cfg_options={'model.bbox_head.num_classes': True}), 'must be like 80'),
        (dict(cfg_options={'model.test_cfg.score_thr': float('nan')}), 'must be numbers of the mo'),
        (dict(cfg_options={'model.x': [[[[[[1]]]]]]}), 'must be numbers of the model'),
        (dict(classes='abc'), 'classes is .abc.; it must be a list of names'),
        (dict(classes=['a', 5]), 'must be a list of names'),
        (dict(classes=['a', '\ud800']), 'must be a list of names'),
        (dict(palette=[[1, 2]]), 'must be a list of colors'),
    ],
)
def test_a_folder_that_asks_for_more_than_names_and_numbers_is_rejected(
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
    monkeypatch.setattr(nearest, 'own_configs', lambda: some)  # reading all takes a quarter minute
    with pytest.raises(UserError, match='Linear'):
        mmeffvit.save_pretrained(nn.Linear(1, 1), tmp_path / 'x')
    model = mmeffvit.get_model(SSD)
    model.cfg.model.bbox_head.type = 'SSDHead'
    with pytest.raises(UserError, match='in more than numbers'):
        mmeffvit.save_pretrained(model, tmp_path / 'x')
    with pytest.raises(UserError, match=r"'gone\.png'"):
        mmeffvit.save_pretrained(detector, tmp_path / 'x', picture='gone.png')
    assert not (tmp_path / 'x').exists()


def test_models_are_pushed_to_a_hub_or_the_reason_is_in_one_line(detector, tmp_path):
    def upload(_, *, repo_id: str, folder_path: str) -> str:
        shutil.copytree(folder_path, tmp_path / repo_id)
        return 'the commit'

    with (
        mock.patch.object(HfApi, 'create_repo', autospec=True) as create,
        mock.patch.object(HfApi, 'upload_folder', autospec=True, side_effect=upload),
    ):
        assert mmeffvit.push_to_hub(detector, 'me/bolts', private=True) == 'the commit'
        create.assert_called_once_with(mock.ANY, 'me/bolts', private=True, exist_ok=True)
        assert_same(mmeffvit.get_model(str(tmp_path / 'me' / 'bolts')), detector)
        create.side_effect = OSError('no route\nto the host')
        message = r"'me/bolts' cannot be pushed .*\(no route\): .*save_pretrained\(model, FOLDER\)"
        with pytest.raises(UserError, match=message):
            mmeffvit.push_to_hub(detector, 'me/bolts')


def test_weights_of_the_hub_are_downloaded_under_their_license(tmp_path, monkeypatch, capsys):
    path = tmp_path / 'pytorch_model.bin'
    torch.save(mmeffvit.get_model('swiftformer_xs').state_dict(), path)
    settings = dict(type='Pretrained', checkpoint='hf://timm/swiftformer_xs.dist_in1k')
    download = mock.create_autospec(huggingface_hub.hf_hub_download, return_value=str(path))
    monkeypatch.setattr(huggingface_hub, 'hf_hub_download', download)
    for cached, notices in ((None, 2), (str(path), 0)):
        monkeypatch.setattr(
            huggingface_hub, 'try_to_load_from_cache', lambda *_, found=cached, **__: found
        )
        mmeffvit.get_model('swiftformer_xs', pretrained=True)
        mmeffvit.models.SwiftFormer('xs', init_cfg=settings).init_weights()
        printed = capsys.readouterr().err
        assert printed.count("timm's copy of the weights of the authors of Swift") == notices
        assert printed.count('license: Apache-2.0') == notices


def test_a_model_of_a_config_with_another_name_is_told_by_its_structure(monkeypatch, tmp_path):
    some = {name: own_configs()[name] for name in ('ssdlite_mobilevitv2_075', SSD)}
    monkeypatch.setattr(nearest, 'own_configs', lambda: some)
    model = mmeffvit.get_model(SSD)
    model.cfg.dump(tmp_path / 'mine.py')
    model.cfg = Config.fromfile(tmp_path / 'mine.py')
    mmeffvit.save_pretrained(model, tmp_path / 'mine')
    assert_same(mmeffvit.get_model(str(tmp_path / 'mine')), model)


def current_scope() -> tuple[str, str] | None:
    scope = DefaultScope.get_current_instance()  # mmengine copies it to restore it
    return scope and (scope.instance_name, scope.scope_name)


def test_the_work_dir_of_a_run_stands_for_its_config_and_its_best_checkpoint(detector, tmp_path):
    detector.cfg.dump(tmp_path / 'bolts.py')
    classes = detector.dataset_meta['classes']
    for name, factor in (('epoch_1', 0), ('epoch_2', 2), ('best_coco_bbox_mAP_epoch_1', 1)):
        state = {key: value * factor for key, value in detector.state_dict().items()}
        meta = dict(dataset_meta=dict(classes=classes))
        torch.save(dict(state_dict=state, meta=meta), tmp_path / f'{name}.pth')
    before = current_scope()
    assert_same(mmeffvit.get_model(str(tmp_path)), detector)
    assert current_scope() == before
    (tmp_path / 'best_coco_bbox_mAP_epoch_1.pth').unlink()
    assert find_source(str(tmp_path)).own.path.name == 'epoch_2.pth'
    (tmp_path / 'epoch_2.pth').write_bytes(b'cut')
    assert find_source(str(tmp_path)).own.path.name == 'epoch_1.pth'
    shutil.copy(tmp_path / 'bolts.py', tmp_path / 'other.py')
    with pytest.raises(UserError, match=r'bolts\.py, other\.py'):
        find_source(str(tmp_path))
