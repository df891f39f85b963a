"""Models as folders: what is written, and that it is read back bit for bit."""

import json
import shutil

import cv2
import pytest
import torch
import yaml
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import nn

import mmeffvit
from mmeffvit.config.load import load_config, own_configs
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.zoo import nearest
from mmeffvit.zoo.nearest import PIPELINE
from mmeffvit.zoo.source import find_source
from tests.conftest import output_of, run_python
from tests.released import cvnets, files
from tests.released.test_loading import transformers_key
from tests.zoo.hub_server import COMMIT, serve

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


def test_a_backbone_for_images_that_are_no_squares_is_saved(tmp_path):
    sides = {'model.backbone.resolution': (64, 96)}
    model = mmeffvit.get_model('gflite_efficientformerv2_s0', cfg_options=sides)
    assert_same(model, mmeffvit.get_model(mmeffvit.save_pretrained(model, tmp_path / 'saved')))


def test_the_image_size_of_a_model_is_saved(tmp_path):
    size = {'test_dataloader.dataset.pipeline.1.scale': (96, 64)}
    model = mmeffvit.get_model(SSD, cfg_options=size)
    folder = mmeffvit.save_pretrained(model, tmp_path / 'saved')
    pipeline = find_source(str(folder)).config.test_dataloader.dataset.pipeline
    assert pipeline[1].scale == (96, 64)
    model.cfg.test_dataloader.dataset.pipeline.insert(2, dict(type='RandomFlip'))
    with pytest.raises(UserError, match=r'test pipeline .* differs .* in more than numbers'):
        mmeffvit.save_pretrained(model, tmp_path / 'other')


def test_a_head_that_shares_layers_between_levels_is_saved(tmp_path):
    model = mmeffvit.get_model('rtmdet_swiftformer_xs')
    assert_same(model, mmeffvit.get_model(mmeffvit.save_pretrained(model, tmp_path / 'saved')))


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


def test_a_backbone_comes_back_with_its_arguments_and_is_no_model_for_the_predictor(tmp_path):
    options = dict(attention='mobile', out_indices=range(1, 4), init_cfg=None)
    backbone = files.with_random_weights(mmeffvit.get_model('efficientformerv2_s0', **options))
    again = mmeffvit.get_model(str(mmeffvit.save_pretrained(backbone, tmp_path / 's0')))
    assert_same(again, backbone)
    assert again.out_indices == (1, 2, 3)
    with pytest.raises(UserError, match='efficientformerv2_s0: load it with get_model'):
        mmeffvit.Predictor(tmp_path / 's0')


def test_the_tools_take_a_saved_folder(shapes, tmp_path):
    from mmeffvit.data.shapes import CLASSES

    model = mmeffvit.get_model(SSD, cfg_options={'model.bbox_head.num_classes': len(CLASSES)})
    model.dataset_meta = dict(classes=CLASSES)
    folder = mmeffvit.save_pretrained(files.with_random_weights(model), tmp_path / SSD)
    data = ['--cfg-options', f'data_root={shapes}', 'test_dataloader.num_workers=0']
    out = tmp_path / 'found.pkl'
    printed = output_of('test', folder, '--work-dir', tmp_path / 'run', '--out', out, *data)
    assert 'box AP' in printed
    loaders = [f'{split}_dataloader.num_workers=0' for split in ('train', 'val')]
    data += ['train_dataloader.dataset.indices=2', 'train_dataloader.batch_size=2', *loaders]
    data += ['train_cfg.max_epochs=1', 'train_cfg.val_interval=9', 'optim_wrapper.optimizer.lr=0']
    output_of('train', folder, '--work-dir', tmp_path / 'tuned', '--no-check', *data)
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


CODE = """
import mmeffvit, torch
for address in {addresses}:
    try:
        model = mmeffvit.get_model(address)
        print(address, float(sum(v.double().sum() for v in model.state_dict().values())))
    except mmeffvit.zoo.models.UserError as error:
        print(address, 'rejected:', error)
"""


def test_repositories_in_the_cache_of_the_hub_are_read_offline(saved, detector, tmp_path):
    """In a process of its own: the library of the hub reads its settings when it is imported."""
    release = cvnets.RELEASES['deeplabv3_mobilevitv2_100_voc12']
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
    local = mmeffvit.get_model(str(snapshot))  # the last, as a folder
    assert local.cfg.model.decode_head.type == 'mmeffvit.SlimASPPHead'
    weight = theirs['mobilevitv2.conv_stem.convolution.weight']
    assert torch.equal(local.backbone.stem.conv.weight, weight)
    addresses = ['hf://me/bolts', 'hf://apple/mobilevitv2-1.0-voc-deeplabv3', 'hf://me/gone']
    env = {'HF_HOME': str(tmp_path), 'HF_HUB_OFFLINE': '1'}
    done = run_python('-c', CODE.format(addresses=addresses), env=env)
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith('hf://')}
    total = float(sum(value.double().sum() for value in detector.state_dict().values()))
    assert float(lines[addresses[0]].split()[1]) == total, done.stdout
    assert 'rejected' not in lines[addresses[1]]
    assert 'rejected' in lines[addresses[2]]
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
        (dict(cfg_options={f'{PIPELINE}.1.scale': [9000, 64]}), 'give 1 to 8192'),
        (dict(cfg_options={f'{PIPELINE}.1.other': 1}), 'no setting of its test pipeline'),
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


ONLINE = """
import sys, mmeffvit
from mmeffvit.errors import UserError
folder, picture = sys.argv[1:]
model = mmeffvit.get_model(folder)
print('commit', mmeffvit.push_to_hub(model, 'me/bolts', private=True, license='CC0-1.0'))
predictor = mmeffvit.Predictor('hf://me/bolts', device='cpu')
print('found', sorted(set(predictor(picture).names)))
total = lambda model: float(sum(v.double().sum() for v in model.state_dict().values()))
print('same', total(predictor.model) == total(model))
settings = dict(type='Pretrained', checkpoint='hf://timm/swiftformer_xs.dist_in1k')
for number in range(2):
    print('load', number, flush=True)
    mmeffvit.get_model('swiftformer_xs', pretrained=True)
    mmeffvit.models.SwiftFormer('xs', init_cfg=settings).init_weights()
for name in ('me/gone', 'm e/gone'):
    try:
        mmeffvit.get_model('hf://' + name)
    except UserError as error:
        print('rejected:', error)
"""


def test_models_are_pushed_to_a_hub_and_downloaded_under_their_license(saved, tmp_path):
    timm = tmp_path / 'hub' / 'timm' / 'swiftformer_xs.dist_in1k'
    timm.mkdir(parents=True)
    torch.save(mmeffvit.get_model('swiftformer_xs').state_dict(), timm / 'pytorch_model.bin')
    picture = files.save_picture(tmp_path / 'p.png', 160, 128)
    with serve(tmp_path / 'hub') as (address, hub):
        env = {'HF_HOME': str(tmp_path / 'home'), 'HF_ENDPOINT': address, 'HF_TOKEN': 'hf_local',
               'HF_HUB_DISABLE_XET': '1', 'HF_HUB_OFFLINE': '0'}  # fmt: skip
        printed = run_python('-c', ONLINE, saved, picture, env=env).stdout
    assert f'commit {address}/me/bolts/commit/{COMMIT}' in printed, printed
    assert [(made['name'], made['private']) for made in hub.created] == [('bolts', True)]
    assert sorted(path.name for path in (tmp_path / 'hub/me/bolts').iterdir()) == [
        'README.md', 'config.json', 'model.safetensors',
    ]  # fmt: skip
    assert 'same True' in printed
    assert 'bolt' in printed.partition('found ')[2].partition('\n')[0]
    notice = "swiftformer_xs: timm's copy of the weights of the authors of SwiftFormer from hf://"
    assert printed.count(notice) == 1
    assert 'license: Apache-2.0' in printed.partition('load 0')[2].partition('load 1')[0]
    assert 'me/gone from the Hugging Face hub' in printed
    assert "rejected: 'hf://m e/gone' is not a hub address" in printed


def test_a_hub_that_cannot_be_reached_is_an_error_in_one_line(tmp_path):
    code = (
        "import mmeffvit\nmodel = mmeffvit.get_model('shvit_s1')\n"
        "try:\n    mmeffvit.push_to_hub(model, 'me/shvit')\n"
        "except mmeffvit.zoo.models.UserError as error:\n    print('rejected:', error)\n"
    )
    env = {'HF_HOME': str(tmp_path), 'HF_ENDPOINT': 'http://127.0.0.1:9', 'HF_TOKEN': 'hf_none'}
    printed = run_python('-c', code, env=env).stdout
    assert "rejected: 'me/shvit' cannot be pushed" in printed
    assert 'save_pretrained(model, FOLDER)' in printed


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
    with pytest.raises(UserError, match=r'bolts\.py, .*other\.py, and a CHECKPOINT'):
        find_source(str(tmp_path))


@pytest.mark.parametrize(
    ('name', 'loss', 'kind'),
    [
        ('rtmdet_swiftformer_xs', 'bbox_head.loss_cls', 'QualityFocalLoss'),
        ('segformer_shvit_s1_ade20k', 'decode_head.loss_decode', 'CrossEntropy'),
    ],
)
def test_a_model_trained_with_weights_of_classes_is_saved_as_one_of_ours(name, loss, kind):
    config = load_config(own_configs()[name])
    weighted = dict(type=f'mmeffvit.ClassWeighted{kind}', class_weight=[2.0, 0.5])
    config.merge_from_dict({f'model.{loss}': weighted})
    assert nearest.nearest_config(config) == (name, {})
