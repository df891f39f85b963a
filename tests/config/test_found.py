"""A config that nobody named sets values, and reaches no other code than registered classes."""

import shutil
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mmengine.registry import FUNCTIONS, MODELS, DefaultScope

import mmeffvit
from mmeffvit.config.found import fault_of, read_found
from mmeffvit.config.load import load_config, own_configs
from mmeffvit.config.values import dicts_in
from mmeffvit.errors import UserError
from mmeffvit.train.distillation.teacher import TeacherHook
from mmeffvit.zoo.source import find_source
from tests.conftest import rejected, run_python
from tests.released import files

NAME = 'ssdlite_mobilevitv2_050'
PAYLOAD = 'mmeffvit_payload'  # a module whose import leaves a trace
TYPE = f'{PAYLOAD}.run'


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """The file that the payload creates, when something imports it."""
    folder = tmp_path / 'modules'
    folder.mkdir()
    trace = tmp_path / 'trace'
    body = f'open({str(trace)!r}, "w").close()\ndef run(*args, **named): return None\n'
    for name in (PAYLOAD, f'{PAYLOAD}_registry/registry'):
        path = folder / f'{name}.py'
        path.parent.mkdir(exist_ok=True)
        path.write_text(body)
        monkeypatch.delitem(sys.modules, name.replace('/', '.'), raising=False)
    monkeypatch.syspath_prepend(folder)
    return trace


@cache
def trained() -> dict[str, Any]:
    """The values of a config as a run saves it."""
    return load_config(NAME).to_dict()


FIELDS = {  # what mmengine, mmdet and mmseg look up; types of other dicts are attacked below
    'model': dict(type=TYPE),
    'model.test_cfg.nms': dict(type=f"__import__('{PAYLOAD}')"),
    'model.backbone.norm_layer': TYPE,
    'train_dataloader.collate_fn': TYPE,
    'test_dataloader.dataset.backend_args': dict(backend='memcached', sys_path='/tmp'),
    'test_dataloader.dataset.ann_file': 'annotations.pkl',
    'train_dataloader.dataset.proposal_file': 'proposals.pickle',
    'val_dataloader.dataset.metainfo.from_file': 'classes.YAML',
    'model.loss.class_weight': 'pkl',
    'train_dataloader.dataset': dict(type='RefCocoDataset', split_file='splits.txt'),
    'test_dataloader.dataset.data_prefix': dict(img='http://127.0.0.1/'),
    'optim_wrapper.constructor': TYPE,
    'runner_type': TYPE,
    'default_scope': f'{PAYLOAD}_registry',
    'model._scope_': f'{PAYLOAD}_registry',
    'model.neck': dict(type=f'{PAYLOAD}_registry.Neck'),
    'custom_imports': dict(imports=['mmdet', PAYLOAD]),
    'model.teacher_config': 'teacher.json',
    'model.train_cfg': dict(type='mmdet.CameraMotionCompensation', warp_mode='1'),
    'custom_hooks.0': dict(type='RFSearchHook'),
    'vis_backends': [dict(type='WandbVisBackend')],
    'model.tokenizer': dict(type='AutoTokenizer', trust_remote_code=True),
    'train_pipeline': [dict(type='torchvision/ConvertImageDtype', dtype='float32 or print()')],
    'test_pipeline': [dict(type='mmdet.Albu', transforms=[dict(type='from_dict')])],
    'test_evaluator.outfile_prefix': '/root/.bashrc',
    'val_evaluator': dict(type='DumpProposals', output_dir='/root'),
    'test_evaluator': [dict(type='mmseg.CityscapesMetric', output_dir='data')],
    'visualizer.vis_backends': [dict(type='LocalVisBackend', scalar_save_file='/root/.bashrc')],
    'default_hooks.checkpoint': dict(type='CheckpointHook', out_dir='../../elsewhere'),
    '_base_': ['base.py'],
    'model._base_': 'base.py',
    'read_base': 'base.py',
    'model.type': 5,
    'model.type.type': TYPE,
    'model.decode_head': dict(type='mmengine.utils.import_modules_from_strings'),
    'model.mask_head': dict(type='mmdet.models.RetinaNet.__init__.__globals__'),
    'model.roi_head': dict(type='mmdet.apis.inference.init_detector'),
    'model.rpn_head': dict(type='torch.hub.load'),
}  # fmt: skip


def put(values: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """A copy of a config with a value at a dotted place."""
    values = deepcopy(values)
    *path, last = place.split('.')
    holder: Any = values
    for part in path:
        index = int(part) if part.isdigit() else part
        if isinstance(holder, dict) and not isinstance(holder.get(index), dict | list):
            holder[index] = {}
        holder = holder[index]
    if isinstance(holder, list):
        holder.append(value)
    else:
        holder[last] = value
    return values


@pytest.mark.parametrize('place', FIELDS)
def test_every_field_that_names_code_is_checked(place, trace):
    fault = fault_of(put(trained(), place, FIELDS[place]))
    assert place.split('.')[0] in str(fault)
    assert not trace.exists()


@pytest.mark.parametrize('every', [False, pytest.param(True, marks=pytest.mark.variant)])
def test_our_configs_only_set_values(every):
    by_head = {name.split('_')[0]: name for name in own_configs()}
    for name in own_configs() if every else by_head.values():
        assert fault_of(load_config(name).to_dict()) is None, name


def test_configs_of_ours_are_allowed_by_a_process_that_has_imported_nothing():
    code = (
        'from mmeffvit.config.found import fault_of; from mmeffvit.config.load import load_config; '
        "names = 'rtmdet_swiftformer_xs', 'segformer_swiftformer_xs_ade20k'; "
        'print("faults:", *(fault_of(load_config(name).to_dict()) for name in names))'
    )
    done = run_python('-c', code)
    assert done.stdout.endswith('faults: None None\n'), done.stdout


@pytest.mark.parametrize(
    'name',
    [
        'mmdet.models.detectors.retinanet.RetinaNet',
        'mmdet.models.RetinaNet',
        'mmcv.transforms.loading.LoadImageFromFile',
        'mmengine.hooks.checkpoint_hook.CheckpointHook',
        'torch.optim.adamw.AdamW',
        'torch.optim.AdamW',
        'mmdet.RetinaNet',
        'RetinaNet',
    ],
)
def test_registered_classes_are_found_by_name_and_by_the_paths_of_the_new_style(name):
    assert fault_of(dict(default_scope='mmdet', model=dict(type=name))) is None
    assert fault_of(dict(default_scope='mmdet', model=dict(type=f'{name}s'))) is not None


@pytest.mark.parametrize(
    ('key', 'path', 'name'),
    [('nms', 'mmcv.ops.nms', 'nms'), ('roi_layer', 'mmcv.ops.roi_align.RoIAlign', 'RoIAlign')],
)
def test_operators_of_mmcv_are_read_by_the_paths_of_the_new_style(key, path, name, tmp_path):
    text = "default_scope = 'mmdet'\nmodel = dict(type='RetinaNet', x=dict({}=dict(type='{}')))"
    (tmp_path / 'x.py').write_text(text.format(key, path))
    assert read_found(tmp_path / 'x.py').model.x[key].type == name
    (tmp_path / 'x.py').write_text(text.format(key, 'mmcv.ops.system'))
    with pytest.raises(UserError, match="type is 'system', which is not a registered class"):
        read_found(tmp_path / 'x.py')


PLACES = sorted({place for place, _ in dicts_in(load_config(NAME).to_dict())} - {''})


@given(
    st.sampled_from(PLACES),
    st.sampled_from([TYPE, 'os.system', 'builtins.eval', f'{PAYLOAD}_registry.X', 'posix.system']),
    st.lists(st.sampled_from(['list', 'dict']), max_size=3),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_foreign_type_is_found_at_any_depth(place, name, nesting):
    attack: Any = dict(type=name, command='true')
    for kind in nesting:
        attack = [attack] if kind == 'list' else dict(inner=attack)
    assert f'is {name!r}' in str(fault_of(put(trained(), f'{place}.attack', attack)))


@pytest.mark.parametrize('kind', ['type', 'collate', 'scope'])
def test_mmengine_runs_the_payload_where_nothing_is_checked(kind, trace):
    """The control of all others: what is attacked is there."""
    if kind == 'scope':
        with DefaultScope.overwrite_default_scope(f'{PAYLOAD}_registry'), pytest.raises(KeyError):
            MODELS.build(dict(type='X'))
    else:
        MODELS.build(dict(type=TYPE)) if kind == 'type' else FUNCTIONS.get(TYPE)
    assert trace.exists()


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """A work dir whose config builds the payload, and the same without."""
    tmp_path = tmp_path_factory.mktemp('runs')
    model = files.with_random_weights(mmeffvit.get_model(NAME))
    folders = []
    for name, attack in (('good', {}), ('bad', dict(type=TYPE))):
        folder = tmp_path / name
        folder.mkdir()
        config = load_config(NAME)
        config.model.bbox_head.bbox_coder.update(attack)
        config.dump(folder / 'config.py')
        meta = dict(cfg=config.pretty_text, dataset_meta=dict(classes=['thing'] * 80))
        torch.save(dict(state_dict=model.state_dict(), meta=meta), folder / 'epoch_1.pth')
        folders.append(folder)
    return folders


@pytest.mark.parametrize('file', ['', 'epoch_1.pth'])
def test_a_config_beside_a_checkpoint_names_no_other_code(file, run, trace):
    good, bad = run
    found = find_source(str(good / file)).config
    assert found.model.type
    assert found.work_dir == str(good)
    with pytest.raises(UserError, match=rf'model\.bbox_head\.bbox_coder\.type is .{TYPE}'):
        find_source(str(bad / file))
    assert not trace.exists()
    # the user's own choice
    assert find_source(str(bad / 'config.py')).config.model.bbox_head.bbox_coder.type == TYPE


@pytest.mark.parametrize('text', ['import {}', "_base_ = '{}.py'", "x = '{{{{$HOME:{}}}}}'"])
def test_a_program_beside_a_checkpoint_is_no_config_of_a_run(text, run, trace, tmp_path):
    good = Path(shutil.copytree(run[0], tmp_path / 'run'))
    with (good / 'config.py').open('a') as file:
        file.write(f'\n{text.format(PAYLOAD)}\n')
    with pytest.raises(UserError, match='is a folder without a run'):
        find_source(str(good))
    assert not trace.exists()


@pytest.mark.slow
@pytest.mark.parametrize('command', ['predict', 'export', 'web', 'complexity', 'distill', 'test'])
def test_no_command_runs_a_config_that_is_found(command, run, trace, tmp_path):
    _, bad = run
    picture = str(files.save_picture(tmp_path / 'p.png', 96, 80))
    arguments = {
        'predict': [bad, picture, '--out-dir', tmp_path / 'out'],
        'export': [bad, tmp_path / 'x.onnx'],
        'web': [bad, tmp_path / 'page'],
        'complexity': [bad],
        'distill': [NAME, bad, Path(picture).parent],
        'test': [bad],
    }[command]
    assert f'bbox_coder.type is {TYPE!r}' in rejected(command, *arguments)
    assert not trace.exists()


def test_a_teacher_that_a_found_config_names_passes_the_same_door(run, trace, tmp_path):
    _, bad = run
    config = load_config(NAME)
    config.custom_hooks = [dict(type='mmeffvit.TeacherHook', teacher=str(bad / 'config.py'))]
    config.dump(tmp_path / 'run.py')
    found = read_found(tmp_path / 'run.py')
    (settings,) = found.custom_hooks
    assert settings.pop('type') == 'mmeffvit.TeacherHook'
    hook = TeacherHook(**settings)
    assert not hook.trusted
    with pytest.raises(UserError, match='bbox_coder'):
        find_source(hook.target, named=hook.trusted)
    assert not trace.exists()


def test_an_inferencer_of_mmdet_runs_nothing_of_a_checkpoint(run, trace):
    from mmdet.apis import DetInferencer

    good, bad = run
    assert DetInferencer(weights=str(good / 'epoch_1.pth'), device='cpu').model
    missing = (AttributeError, KeyError, TypeError, ValueError)  # in mmengine's own words
    with pytest.raises(missing, match=r'cfg|config|model'):
        DetInferencer(weights=str(bad / 'epoch_1.pth'), device='cpu')
    assert not trace.exists()
