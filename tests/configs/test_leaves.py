"""Every leaf config loads, builds, trains a step and predicts; sizes are the published ones."""

import pytest
import torch
from mmengine.config import Config

from tests.configs.leaves import (
    LEAVES,
    batch_of,
    build_as_trained,
    build_empty,
    count,
    load,
    train_step,
)
from tests.conftest import ROOT, run_python

# whole models with 80 classes, counted from the parts of the reference modules
PARAMETERS = {
    'maskrcnn_swiftformer_l1': 31_378_176,
    'maskrcnn_swiftformer_l3': 47_637_168,
    'maskrcnn_shvit_s4': 37_416_524,
    'retinanet_shvit_s4': 26_515_792,
}


def text(leaf: str) -> str:
    return (ROOT / 'configs' / f'{leaf}.py').read_text()


@pytest.mark.parametrize('leaf', LEAVES)
def test_a_leaf_survives_dumping_and_reloading(leaf, tmp_path, monkeypatch):
    if leaf != LEAVES[0]:  # laying out the lines takes a second and changes no value
        monkeypatch.setattr('mmengine.config.config.FormatCode', lambda code, **_: (code, False))
    config = load(leaf)
    config.dump(tmp_path / 'dumped.py')
    assert Config.fromfile(tmp_path / 'dumped.py').to_dict() == config.to_dict()


@pytest.mark.parametrize('leaf', LEAVES)
def test_a_leaf_says_what_it_trains_on_and_what_we_measured(leaf):
    docstring = text(leaf).split('"""')[1]
    assert 'Ours: ' in docstring or 'demonstration' in docstring


@pytest.mark.parametrize('leaf', LEAVES)
def test_a_leaf_trains_a_step_and_predicts(leaf):
    config = load(leaf)
    model = build_as_trained(config)
    assert train_step(model, batch_of(model, config)).isfinite()
    unused = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert unused == []
    model.eval()
    with torch.no_grad():
        found = model.test_step(batch_of(model, config))[0]
    if config.default_scope == 'mmseg':
        assert found.pred_sem_seg.data.shape == (1, 128, 128)
    else:
        assert found.pred_instances.bboxes.shape[1:] == (4,)
        assert ('masks' in found.pred_instances) == leaf.startswith('maskrcnn')


@pytest.mark.parametrize('leaf', PARAMETERS)
def test_parameters_of_whole_models_are_as_published(leaf):
    assert count(build_empty(leaf)) == PARAMETERS[leaf]


@pytest.mark.parametrize('arch', ['xs', 's', 'l1', 'l3'])
def test_the_coco_recipe_is_that_of_the_paper(arch):
    config = load(f'maskrcnn_swiftformer_{arch}')
    optimizer = config.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ('AdamW', 2e-4, 1e-4)
    assert config.train_dataloader.batch_size * 8 == config.auto_scale_lr.base_batch_size == 32
    warm_up, steps = config.param_scheduler
    assert (warm_up.start_factor, warm_up.end, warm_up.by_epoch) == (1e-6, 500, False)
    assert (steps.milestones, steps.gamma) == ([8, 11], 0.1)
    assert config.train_cfg.max_epochs == 12
    assert 'paramwise_cfg' not in config.optim_wrapper
    assert 'clip_grad' not in config.optim_wrapper
    assert config.model.backbone.arch == arch
    resize = next(t for t in config.train_dataloader.dataset.pipeline if t.type == 'Resize')
    assert (resize.scale, resize.keep_ratio) == ((1333, 800), True)


@pytest.mark.parametrize('head', ['maskrcnn', 'retinanet'])
def test_the_recipe_of_shvit_is_that_of_its_authors(head):
    config = load(f'{head}_shvit_s4')
    optimizer = config.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ('AdamW', 1e-4, 0.05)
    assert config.train_dataloader.batch_size * 8 == config.auto_scale_lr.base_batch_size == 16
    assert config.param_scheduler[0].start_factor == 1e-3
    assert config.param_scheduler[1].milestones == [8, 11]
    backbone = config.model.backbone
    assert backbone.norm_eval
    assert backbone.get('frozen_stages', -1) == -1


def test_the_environment_moves_the_data(monkeypatch):
    monkeypatch.setenv('DATA_ROOT', '/elsewhere')
    config = load('maskrcnn_swiftformer_l1')
    assert config.train_dataloader.dataset.data_root == '/elsewhere/'
    assert config.val_evaluator.ann_file == '/elsewhere/annotations/instances_val2017.json'


def test_an_option_moves_the_data():
    from mmeffvit.config.load import load_config

    path = ROOT / 'configs' / 'maskrcnn_swiftformer_l1.py'
    config = load_config(path, {'data_root': '/elsewhere'})
    assert config.train_dataloader.dataset.data_root == '/elsewhere/'
    assert config.test_evaluator.ann_file == '/elsewhere/annotations/instances_val2017.json'


def test_leaves_load_with_mmengine_alone():
    code = (
        'import sys\n'
        "sys.modules.update(dict.fromkeys(('mmdet', 'mmseg', 'mmcv', 'mmeffvit')))\n"
        'from mmengine.config import Config\n'
        'print(sum("model" in Config.fromfile(path) for path in sys.argv[1:]))\n'
    )
    paths = [ROOT / 'configs' / f'{leaf}.py' for leaf in LEAVES]
    done = run_python('-c', code, *paths)
    assert done.returncode == 0, done.stdout
    assert done.stdout.split()[-1] == str(len(LEAVES))
