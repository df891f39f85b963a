"""Released files of every kind into a backbone: what loads, what is rejected, what is reported."""

from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import EMAHook
from mmengine.model import PretrainedInit
from safetensors.torch import save_file
from torch import nn

from mmeffvit.config.build import without_weights
from mmeffvit.models import SwiftFormer
from mmeffvit.models.checkpoints import CheckpointError, open_checkpoint
from mmeffvit.models.checkpoints.download import download
from mmeffvit.models.checkpoints.pretrained import checkpoint_of
from mmeffvit.models.checkpoints.sources import copy_into, fetch
from mmeffvit.train.checks.settings import loads_weights
from tests.deploy.web.browser import serve
from tests.models.checkpoints import spelling
from tests.models.parity import randomized
from tests.models.test_contract import TINY, build

ARCH = dict(channels=(8, 8, 16, 16), depths=(3, 3, 6, 4))  # the blocks of XS


def official_state(backbone: SwiftFormer, output_norms: bool = False) -> dict[str, torch.Tensor]:
    """The weights as an official file has them: linear layers and scores two-dimensional."""
    state = spelling.official_state(backbone, 'swiftformer_xs')
    for key, value in state.items():
        if '.attn.' in key and value.ndim == 4:
            value = value.flatten(1)
        state[key] = value.T if key.endswith('w_g') else value
    for key, value in backbone.state_dict().items() if output_norms else ():
        if key.startswith('output_norms.'):
            _, stage, name = key.split('.')
            state[f'norm{2 * int(stage)}.{name}'] = value
    state['head.weight'] = torch.zeros(1000, 16)
    state['dist_head.bias'] = torch.zeros(1000)
    return state


def assert_same(ours: SwiftFormer, source: SwiftFormer) -> None:
    loaded = ours.state_dict()
    for key, value in source.state_dict().items():
        if not key.startswith('output_norms'):
            assert torch.equal(loaded[key], value), key


@pytest.mark.parametrize('wrapper', ['model', 'state_dict', None])
@pytest.mark.parametrize('prefix', ['', 'module.', 'backbone.'])
def test_an_official_file_loads_whatever_wraps_it(tmp_path, log, wrapper, prefix):
    source = randomized(SwiftFormer(ARCH))
    state = {prefix + key: value for key, value in official_state(source).items()}
    torch.save({wrapper: state, 'epoch': 3} if wrapper else state, tmp_path / 'official.pth')
    ours = SwiftFormer(ARCH)
    ours.init_cfg = dict(type='Pretrained', checkpoint=str(tmp_path / 'official.pth'))
    ours.init_weights()
    assert_same(ours, source)
    loaded = len(source.state_dict()) - 20
    (line,) = {m for m in log.messages if 'official.pth' in m}  # of a run's logger, too
    assert f'{loaded} tensors loaded, 2 ignored, 20 missing' in line


@pytest.mark.parametrize(
    'spell',
    [
        lambda **load: [dict(type='Pretrained', **load)],
        lambda **load: dict(type=PretrainedInit, **load),
        lambda **load: dict(type='mmengine.Pretrained', **load),
        lambda **load: dict(type='mmengine.model.weight_init.PretrainedInit', **load),
        lambda **load: [
            dict(type='Pretrained', **load),
            dict(type='Constant', val=7, layer='BatchNorm2d'),
        ],
    ],
    ids=['list', 'class', 'scope', 'import path', 'with others'],
)
def test_every_spelling_of_pretrained_loads_all_weights_and_is_seen_in_a_config(tmp_path, spell):
    source = randomized(SwiftFormer(ARCH))
    torch.save(official_state(source), tmp_path / 'official.pth')
    init_cfg = spell(checkpoint=str(tmp_path / 'official.pth'), map_location='cpu')
    ours = SwiftFormer(ARCH, init_cfg=init_cfg)
    ours.init_weights()
    assert_same(ours, source)
    assert checkpoint_of(init_cfg) == str(tmp_path / 'official.pth')
    config = Config(dict(model=dict(backbone=dict(init_cfg=init_cfg))))
    assert loads_weights(config)
    without_weights(config.model)
    assert not loads_weights(config)
    others = [each for each in init_cfg if isinstance(each, dict) and each['type'] == 'Constant']
    assert config.model.backbone.init_cfg == (others or None)


def test_arguments_of_pretrained_without_effect_are_named():
    for init_cfg in (
        dict(type='Pretrained', checkpoint='x.pth', strict=False),
        dict(type='Pretrained'),
        dict(type='Pretrained', checkpoint=None),
        dict(type='Constant', override=dict(type='Pretrained', name='stem', checkpoint='x.pth')),
    ):
        with pytest.raises(ValueError, match='init_cfg is'):
            SwiftFormer(ARCH, init_cfg=init_cfg).init_weights()


def test_a_dense_official_file_brings_its_output_norms(tmp_path, log):
    source = randomized(SwiftFormer(ARCH))
    torch.save({'model': official_state(source, output_norms=True)}, tmp_path / 'dense.pth')
    ours = SwiftFormer(ARCH)
    ours.load_pretrained(tmp_path / 'dense.pth')
    for key, value in source.state_dict().items():
        assert torch.equal(ours.state_dict()[key], value), key
    assert '0 missing' in log.text


def test_the_backbone_of_a_full_detector_loads(tmp_path):
    source = randomized(SwiftFormer(ARCH))
    state = {f'backbone.{key}': value for key, value in source.state_dict().items()}
    state['neck.lateral_convs.0.conv.weight'] = torch.zeros(1)
    torch.save({'state_dict': state, 'meta': {}}, tmp_path / 'detector.pth')
    for prefix in (None, 'backbone.'):
        ours = SwiftFormer(ARCH)
        ours.load_pretrained(tmp_path / 'detector.pth', prefix=prefix)
        assert_same(ours, source)


def test_stages_that_are_not_built_are_dropped_and_counted(tmp_path, log):
    source = randomized(SwiftFormer(ARCH))
    torch.save(official_state(source), tmp_path / 'official.pth')
    ours = SwiftFormer(ARCH, out_indices=(0, 1, 2))
    ours.load_pretrained(tmp_path / 'official.pth')
    unbuilt = sum(key.startswith('stages.3.') for key in source.state_dict())
    assert f'{unbuilt + 2} ignored' in log.text
    assert torch.equal(ours.stem[0].conv.weight, source.stem[0].conv.weight)


def test_averaged_weights_are_read_on_request_only(tmp_path):
    path = tmp_path / 'training.pth'
    torch.save({'model': {'a': torch.zeros(1)}, 'model_ema': {'module.a': torch.ones(1)}}, path)
    assert open_checkpoint(path).weights['a'] == 0
    assert open_checkpoint(path, averaged=True).weights['a'] == 1


def test_averaged_weights_of_mmengine_are_those_that_it_validated(tmp_path):
    model = nn.Sequential(nn.Linear(1, 1))
    runner = SimpleNamespace(model=model)
    hook = EMAHook()
    hook.before_run(runner)
    checkpoint = dict(meta={}, message_hub={}, state_dict=model.state_dict())
    nn.init.constant_(model[0].weight, 7)
    nn.init.constant_(hook.ema_model.module[0].weight, 3)
    hook.before_save_checkpoint(runner, checkpoint)
    torch.save(checkpoint, tmp_path / 'run.pth')
    for averaged in (False, True):
        assert open_checkpoint(tmp_path / 'run.pth', averaged=averaged).weights['0.weight'] == 3


def test_a_release_starts_a_backbone_with_other_attention_whose_new_layers_are_said(tmp_path, log):
    source, ours = build('DeiT', TINY['DeiT']), build('DeiT', TINY['DeiT'], attention='gated')
    torch.save(randomized(source).state_dict(), tmp_path / 'deit.pth')
    report = ours.load_pretrained(tmp_path / 'deit.pth')
    assert {key.rpartition('.')[0].rpartition('.')[2] for key in report.missing} == {'gate'}
    state = ours.state_dict()
    del state[report.missing[0]]
    torch.save(state, tmp_path / 'cut.pth')
    with pytest.raises(CheckpointError, match=r'missing in the file \(1\)'):
        ours.load_pretrained(tmp_path / 'cut.pth')


@pytest.mark.parametrize(
    ('change', 'named'),
    [
        (
            lambda s: s.pop('patch_embed.0.weight'),
            r'missing in the file \(1\): stem\.0\.conv\.weight',
        ),
        (lambda s: s.update(extra=torch.ones(1)), r'not in the model \(1\): extra'),
        (
            lambda s: s.update({'patch_embed.0.bias': torch.ones(9)}),
            r'stem\.0\.conv\.bias: \(9,\) in the file, \(4,\) in the model',
        ),
        (
            lambda s: s.update({k: v.to('meta') for k, v in s.items()}),
            r'of another kind .*bias: torch\.float32 \(without values\) in the file',
        ),
    ],
    ids=['missing', 'left over', 'shape', 'values'],
)
def test_anything_unexpected_is_an_error_and_changes_nothing(tmp_path, change, named):
    source = randomized(SwiftFormer(ARCH))
    state = official_state(source)
    change(state)
    torch.save(state, tmp_path / 'odd.pth')
    ours = SwiftFormer(ARCH)
    before = {key: value.clone() for key, value in ours.state_dict().items()}
    with pytest.raises(CheckpointError, match=named):
        ours.load_pretrained(tmp_path / 'odd.pth')
    assert all(torch.equal(value, before[key]) for key, value in ours.state_dict().items())


def test_an_exported_file_is_no_damaged_checkpoint(tmp_path):
    (tmp_path / 'model.onnx').write_bytes(b'x')
    with pytest.raises(CheckpointError, match=r'model\.onnx is an exported file, not a checkpoint'):
        open_checkpoint(tmp_path / 'model.onnx')


def test_a_file_of_another_family_is_named(tmp_path):
    torch.save({'conv1.weight': torch.ones(1)}, tmp_path / 'resnet.pth')
    with pytest.raises(CheckpointError, match=r'not a checkpoint of SwiftFormer.*conv1\.weight'):
        SwiftFormer(ARCH).load_pretrained(tmp_path / 'resnet.pth')


@pytest.mark.parametrize('name', ['model.pth', 'model.safetensors'])
@pytest.mark.parametrize('kept', [0.3, 0.95])
def test_a_truncated_file_is_called_that(tmp_path, name, kept):
    tensors = SwiftFormer(ARCH).state_dict()
    path = tmp_path / name
    (save_file if path.suffix == '.safetensors' else torch.save)(tensors, path)
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(CheckpointError, match=rf'{name} is truncated or damaged'):
        SwiftFormer(ARCH).load_pretrained(path)


@pytest.mark.parametrize('kind', ['symbolic', 'hard'])
def test_an_unfinished_download_that_is_a_link_leaves_its_target_as_it_is(kind, tmp_path):
    (tmp_path / 'official.pth').write_bytes(b'weights')
    mine, part = tmp_path / 'mine', tmp_path / 'cache' / 'official.pth.part'
    mine.write_bytes(b'precious')
    part.parent.mkdir()
    (part.symlink_to if kind == 'symbolic' else part.hardlink_to)(mine)
    with serve(tmp_path) as address:
        download(f'{address}official.pth', tmp_path / 'cache' / 'official.pth')
    assert (tmp_path / 'cache' / 'official.pth').read_bytes() == b'weights'
    assert mine.read_bytes() == b'precious'


def test_files_of_the_hub_are_taken_from_the_folder_of_downloaded_weights(tmp_path, monkeypatch):
    monkeypatch.setenv('MMEFFVIT_WEIGHTS', str(tmp_path))
    for name in ('a/b/pytorch_model.bin', 'a/b@main/model.safetensors', 'a/b/config.json',
                 'a/None/pytorch_model.bin'):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert fetch('hf://a/b').read_text() == 'a/b/pytorch_model.bin'
    assert fetch('hf://a/b@main').read_text() == 'a/b@main/model.safetensors'
    assert fetch('hf://a/b/config.json').read_text() == 'a/b/config.json'
    assert fetch('hf://a/None').read_text() == 'a/None/pytorch_model.bin'
    copy = copy_into(tmp_path / 'other', 'hf://a/b')
    assert copy.relative_to(tmp_path / 'other').as_posix() == 'a/b/pytorch_model.bin'
