"""Deformable DETR: sizes, learning rates, levels and odd image sizes."""

from pathlib import Path

import mmdet
import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper

from tests.configs.models import build, load, random_batch
from tests.conftest import ROOT
from tests.variants import sampled

STOCK = 40_118_934
SINGLE_HEAD = 'deformabledetr_resnet_50_single_head'
NAMES = (
    'deformabledetr_resnet_50',
    SINGLE_HEAD,
    'deformabledetr_shvit_s4_single_head',
    'deformabledetr_swiftformer_l1_single_head',
)
# reduction per layer: eight heads to one, and a feed-forward of 1024 to 512
SAVED = {'split': 230_272 - 82_288, 'projected': 230_272 - 45_424}
FFN_SAVED = 262_656


def count(config: Config) -> int:
    with torch.device('meta'):
        model = build(config)
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_stock_model_has_the_parameters_of_mmdets_model():
    folder = Path(mmdet.__file__).parent / '.mim' / 'configs' / 'deformable_detr'
    theirs = Config.fromfile(folder / 'deformable-detr_r50_16xb2-50e_coco.py')
    assert count(load('deformabledetr_resnet_50')) == count(theirs) == STOCK


@pytest.mark.parametrize('attention', ['split', 'projected'])
@pytest.mark.parametrize(('ffn_channels', 'ffn_saved'), [(None, 0), (512, FFN_SAVED)])
def test_six_layers_save_the_documented_number_of_parameters(attention, ffn_channels, ffn_saved):
    config = load(SINGLE_HEAD)
    config.model.single_head.update(attention=attention, ffn_channels=ffn_channels)
    assert count(config) == STOCK - 6 * (SAVED[attention] + ffn_saved)


@pytest.mark.parametrize(
    ('name', 'ratio'), [(SINGLE_HEAD, 1.057), (f'{SINGLE_HEAD}_projected', 1.009)]
)
def test_a_config_names_how_far_its_parameters_are_from_the_printed_ones(name, ratio):
    assert round(count(load(name)) / 37.1e6, 3) == ratio
    assert f' {ratio} times the' in ' '.join((ROOT / f'configs/{name}.py').read_text().split())


def test_the_single_head_config_has_the_layers_of_the_paper():
    chosen = load(SINGLE_HEAD).model.single_head
    assert (chosen.encoder, chosen.decoder) == ([1, 2, 3], [1, 2, 3])
    assert (chosen.attended, chosen.attention, chosen.ffn_channels) == (64, 'split', None)


def test_the_single_head_config_differs_from_the_stock_one_in_nothing_else():
    stock, single = (load(name).to_dict() for name in ('deformabledetr_resnet_50', SINGLE_HEAD))
    assert single['model'].pop('single_head') is not None
    assert single['model'].pop('type') == 'mmeffvit.SingleHeadDeformableDETR'
    assert stock['model'].pop('type') == 'DeformableDETR'
    assert single == stock


@pytest.mark.parametrize('name', NAMES)
def test_the_backbone_and_the_sampling_layers_have_a_tenth_of_the_learning_rate(name):
    config = load(name)
    with torch.device('meta'):
        model = build(config)
    optimizer = build_optim_wrapper(model, config.optim_wrapper).optimizer
    rates = {id(group['params'][0]): group['lr'] for group in optimizer.param_groups}
    slow = ('backbone', 'sampling_offsets', 'reference_points')
    rate = config.optim_wrapper.optimizer.lr
    for key, parameter in model.named_parameters():
        expected = rate / 10 if any(part in key for part in slow) else rate
        assert not parameter.requires_grad or rates[id(parameter)] == pytest.approx(expected), key
    offsets = [key for key, _ in model.named_parameters() if 'sampling_offsets.bias' in key]
    assert len(offsets) == 12


@pytest.mark.parametrize('name', sampled(NAMES, NAMES[:2]))
def test_images_of_different_and_odd_sizes_train_together_and_are_predicted(name):
    model = build(load(name))
    model.init_weights()
    large, small = random_batch(80), random_batch(80)
    large['inputs'] = [large['inputs'][0][:, :127, :]]
    for batch, shape in ((large, (127, 128)), (small, (123, 121))):
        batch['inputs'] = [batch['inputs'][0][:, : shape[0], : shape[1]]]
        batch['data_samples'][0].set_metainfo(dict(img_shape=shape, ori_shape=shape))
    both = {key: large[key] + small[key] for key in large}
    data = model.data_preprocessor(both, training=True)
    assert data['inputs'].shape == (2, 3, 127, 128)
    loss, parts = model.train().parse_losses(model(**data, mode='loss'))
    loss.backward()
    assert loss.isfinite()
    assert sum(name.endswith('loss_bbox') for name in parts) == 6
    without = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert without == []
    with torch.no_grad():
        found = model.eval().test_step(both)
    assert [len(sample.pred_instances) for sample in found] == [100, 100]
    for sample in found:
        height, width = sample.ori_shape
        boxes = sample.pred_instances.bboxes
        assert boxes.min() >= 0
        assert (boxes.amax(dim=0) <= torch.tensor([width, height] * 2)).all()
