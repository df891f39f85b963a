"""Every leaf config loads, builds, trains a step and predicts; sizes are the published ones."""

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope

from tests.conftest import ROOT

LEAVES = sorted(path.stem for path in (ROOT / 'configs').glob('*.py'))

# whole models with 80 classes, counted from the parts of the reference modules
PARAMETERS = {
    'maskrcnn_swiftformer_l1': 31_378_176,
    'maskrcnn_swiftformer_l3': 47_637_168,
    'maskrcnn_shvit_s4': 37_416_524,
    'retinanet_shvit_s4': 26_515_792,
}


def load(leaf: str) -> Config:
    return Config.fromfile(ROOT / 'configs' / f'{leaf}.py')


def build(config: Config) -> torch.nn.Module:
    from mmdet.registry import MODELS

    init_default_scope(config.default_scope)
    model = config.model.copy()
    model.backbone.init_cfg = None  # no download
    return MODELS.build(model)


def random_batch(num_classes: int, size: int = 128) -> dict:
    """One image with two instances, as a data loader gives it."""
    from mmdet.structures import DetDataSample
    from mmdet.structures.mask import BitmapMasks
    from mmengine.structures import InstanceData

    rng = np.random.default_rng(0)
    boxes = np.array([[10, 10, 60, 70], [50, 40, 120, 110]], np.float32)
    masks = np.zeros((2, size, size), np.uint8)
    for mask, (x1, y1, x2, y2) in zip(masks, boxes.astype(int), strict=True):
        mask[y1:y2, x1:x2] = 1
    sample = DetDataSample(
        metainfo=dict(
            img_shape=(size, size), ori_shape=(size, size), scale_factor=(1.0, 1.0),
            batch_input_shape=(size, size), pad_shape=(size, size), img_id=0,
        )
    )  # fmt: skip
    sample.gt_instances = InstanceData(
        bboxes=torch.tensor(boxes),
        labels=torch.tensor([0, num_classes - 1]),
        masks=BitmapMasks(masks, size, size),
    )
    image = torch.tensor(rng.integers(0, 256, (3, size, size)), dtype=torch.uint8)
    return dict(inputs=[image], data_samples=[sample])


@pytest.mark.parametrize('leaf', LEAVES)
def test_a_leaf_survives_dumping_and_reloading(leaf, tmp_path):
    config = load(leaf)
    config.dump(tmp_path / 'dumped.py')
    assert Config.fromfile(tmp_path / 'dumped.py').to_dict() == config.to_dict()


@pytest.mark.parametrize('leaf', LEAVES)
def test_a_leaf_says_what_it_trains_on_and_what_we_measured(leaf):
    docstring = (ROOT / 'configs' / f'{leaf}.py').read_text().split('"""')[1]
    assert 'Ours: ' in docstring or 'demonstration' in docstring


@pytest.mark.parametrize('leaf', LEAVES)
def test_a_leaf_trains_a_step_and_predicts(leaf):
    config = load(leaf)
    model = build(config)
    head = getattr(model, 'roi_head', model).bbox_head
    batch = random_batch(head.num_classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    model.train()
    data = model.data_preprocessor(batch, training=True)
    loss, _ = model.parse_losses(model(**data, mode='loss'))
    loss.backward()
    optimizer.step()
    assert loss.isfinite()
    unused = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert unused == []
    model.eval()
    with torch.no_grad():
        (found,) = model.test_step(random_batch(2))
    assert found.pred_instances.bboxes.shape[1:] == (4,)
    assert ('masks' in found.pred_instances) == leaf.startswith('maskrcnn')


@pytest.mark.parametrize('leaf', PARAMETERS)
def test_parameters_of_whole_models_are_as_published(leaf):
    with torch.device('meta'):
        model = build(load(leaf))
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[leaf]


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
    from mmeffvit.engine.config import load_config

    path = ROOT / 'configs' / 'maskrcnn_swiftformer_l1.py'
    config = load_config(path, {'data_root': '/elsewhere'})
    assert config.train_dataloader.dataset.data_root == '/elsewhere/'
    assert config.test_evaluator.ann_file == '/elsewhere/annotations/instances_val2017.json'
