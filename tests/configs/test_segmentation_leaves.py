"""Segmentation leaves: sizes and multiply-adds as published, the recipes, a step of training."""

import numpy as np
import pytest
import torch
from mmengine.registry import init_default_scope
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from mmeffvit.checkpoints.read import load_torch_file
from tests.configs.leaves import LEAVES as ALL_LEAVES
from tests.configs.leaves import build, count, load, train_step
from tests.conftest import ROOT

pytest.importorskip('mmseg')

HEADS = ('pspnet', 'deeplabv3', 'semfpn')
LEAVES = [leaf for leaf in ALL_LEAVES if leaf.startswith(HEADS)]
# with the main head, without the auxiliary one; multiply-adds in 10**9 at 512 x 512, norms and
# resizing included
ADE20K = {
    'pspnet_mobilevitv2_050': (3_616_911, 15.387),
    'pspnet_mobilevitv2_075': (6_246_151, 26.594),
    'pspnet_mobilevitv2_100': (9_448_575, 40.300),
    'pspnet_mobilevitv2_125': (13_224_183, 56.506),
    'pspnet_mobilevitv2_150': (17_572_975, 75.213),
    'pspnet_mobilevitv2_175': (22_494_951, 96.420),
    'deeplabv3_mobilevitv2_050': (6_308_495, 26.142),
    'deeplabv3_mobilevitv2_075': (9_576_455, 40.028),
    'deeplabv3_mobilevitv2_100': (13_384_831, 56.413),
    'deeplabv3_mobilevitv2_125': (17_733_623, 75.299),
    'deeplabv3_mobilevitv2_150': (22_622_831, 96.684),
    'deeplabv3_mobilevitv2_175': (28_052_455, 120.569),
    'deeplabv3_mobilevitv2_200': (34_022_495, 146.954),
}
VOC12 = {
    'pspnet_mobilevitv2_050': (3_550_734, 4.774),
    'pspnet_mobilevitv2_075': (6_179_974, None),
    'pspnet_mobilevitv2_100': (9_382_398, 13.827),
    'pspnet_mobilevitv2_125': (13_158_006, None),
    'pspnet_mobilevitv2_150': (17_506_798, None),
    'pspnet_mobilevitv2_175': (22_428_774, None),
    'deeplabv3_mobilevitv2_050': (6_242_318, 7.462),
    'deeplabv3_mobilevitv2_100': (13_318_654, 17.853),
    'deeplabv3_mobilevitv2_125': (17_667_446, None),
    'deeplabv3_mobilevitv2_150': (22_556_654, 32.556),
}
SLIM = {
    **{f'{name}_ade20k': sizes for name, sizes in ADE20K.items()},
    **{f'{name}_voc12': sizes for name, sizes in VOC12.items()},
}
# what arXiv:2206.02680 prints, in millions and in 10**9, table 3
PUBLISHED = {
    'pspnet_mobilevitv2_050_ade20k': (3.6, 15.4),
    'pspnet_mobilevitv2_175_ade20k': (22.5, 95.9),
    'deeplabv3_mobilevitv2_075_ade20k': (9.6, 40.0),
    'deeplabv3_mobilevitv2_200_ade20k': (34.0, 147.0),
}
AUXILIARY = {
    '050': 240_790, '075': 351_382, '100': 461_974, '125': 572_566, '150': 768_534,
    '175': 1_041_750, '200': 1_356_438,
}  # fmt: skip
# Mobile-Attention has neither tables nor head mixing in its blocks; SHViT has a fifth level
SEMANTIC_FPN = {
    'semfpn_swiftformer_l1_ade20k': 15_477_414,
    'semfpn_swiftformer_l3_ade20k': 31_736_406,
    'semfpn_efficientformerv2_s0_ade20k': 7_353_766,
    'semfpn_efficientformerv2_s1_ade20k': 9_861_406,
    'semfpn_efficientformerv2_s2_ade20k': 16_291_078,
    'semfpn_efficientformerv2_l_ade20k': 29_760_694,
    'semfpn_efficientformerv2_mobiatt_s2_ade20k': 16_273_542,
    'semfpn_efficientformerv2_mobiatt_l_ade20k': 29_734_390,
    'semfpn_shvit_s4_ade20k': 22_254_066,
}
# one leaf of each head, backbone and data set: the others differ in widths
ITERATIONS = {
    **{f'semfpn_efficientformerv2_mobiatt_{v}_ade20k': 80_000 for v in ('s2', 'l')},
    **{f'semfpn_efficientformerv2_mobiatt_{v}_ade20k_40k': 40_000 for v in ('s2', 'l')},
}


class ElementCounter(TorchDispatchMode):
    """Operations of norms and bilinear resizing, which torch's own counter leaves out.

    The published sums count 2 per element of a batch norm, 5 of a group norm, 4 of a resized map.
    """

    COSTS = {'batch_norm': 2, 'group_norm': 5, 'upsample_bilinear': 4}

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for name, cost in self.COSTS.items():
            if name in func.name():
                self.total += cost * (out[0] if isinstance(out, tuple) else out).numel()
        return out


def random_batch(num_classes: int, size: tuple[int, int] = (128, 128), count: int = 2) -> dict:
    """Images with label maps, as a data loader gives them; some pixels are ignored."""
    from mmengine.structures import PixelData
    from mmseg.structures import SegDataSample

    rng = np.random.default_rng(0)
    samples = []
    for _ in range(count):
        labels = rng.integers(0, num_classes, size)
        labels[:8] = 255
        sample = SegDataSample(metainfo=dict(img_shape=size, ori_shape=size, pad_shape=size))
        sample.gt_sem_seg = PixelData(data=torch.tensor(labels)[None])
        samples.append(sample)
    images = [torch.tensor(rng.integers(0, 256, (3, *size)), dtype=torch.uint8) for _ in samples]
    return dict(inputs=images, data_samples=samples)


def predict(model: torch.nn.Module, batch: dict) -> list:
    model.eval()
    with torch.no_grad():
        return model.test_step(batch)


def multiply_adds(model: torch.nn.Module) -> tuple[float, float]:
    """Of a prediction at 512 x 512 on the meta device, in 10**9: torch's own count, and all."""
    image = torch.empty(1, 3, 512, 512, device='meta')
    meta = [dict(img_shape=(512, 512))]
    model.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as flops:
        model.encode_decode(image, meta)
    with torch.no_grad(), ElementCounter() as elements:
        model.encode_decode(image, meta)
    products = flops.get_total_flops() / 2e9
    return products, products + elements.total / 1e9


@pytest.mark.parametrize('leaf', LEAVES)
def test_the_heads_of_a_leaf_fit_its_backbone(leaf):
    with torch.device('meta'):
        model = build(load(leaf)).eval()
        maps = model.extract_feat(torch.empty(1, 3, 96, 160))
        heads = [model.decode_head]
        if model.with_auxiliary_head:
            heads.append(model.auxiliary_head)
        for head in heads:
            logits = head(maps)
            assert logits.shape[:2] == (1, head.num_classes)
            stride = 4 if leaf.startswith('semfpn') else model.backbone.strides[head.in_index]
            assert logits.shape[2:] == (96 // stride, 160 // stride)


@pytest.mark.parametrize('leaf', SLIM)
def test_sizes_are_those_of_the_published_models(leaf):
    parameters, giga_macs = SLIM[leaf]
    with torch.device('meta'):
        model = build(load(leaf))
        auxiliary = count(model.auxiliary_head)
        assert count(model) - auxiliary == parameters
        products, total = multiply_adds(model)
    if leaf.endswith('ade20k'):
        assert auxiliary == AUXILIARY[leaf.split('_')[2]]
    if giga_macs is not None:
        assert total == pytest.approx(giga_macs, rel=0.003)
    if leaf in PUBLISHED:
        millions, printed = PUBLISHED[leaf]
        assert round(parameters / 1e6, 1) == millions
        # the paper's largest PSPNet is printed without norms and resizing
        assert min(abs(products / printed - 1), abs(total / printed - 1)) < 0.01


@pytest.mark.parametrize('leaf', SEMANTIC_FPN)
def test_semantic_fpn_has_the_parameters_counted_from_the_official_code(leaf):
    with torch.device('meta'):
        assert count(build(load(leaf))) == SEMANTIC_FPN[leaf]


@pytest.mark.parametrize(
    'leaf', ['pspnet_mobilevitv2_050_ade20k', 'deeplabv3_mobilevitv2_050_voc12']
)
def test_any_size_trains_and_predicts_at_its_own_size(leaf):
    model = build(load(leaf))
    num_classes = model.decode_head.num_classes
    for size in ((41, 67), (56, 72)):  # odd, and no multiple of 64
        assert train_step(model, random_batch(num_classes, size)).isfinite()
        (found,) = predict(model, random_batch(num_classes, size, count=1))
        assert found.pred_sem_seg.data.shape == (1, *size)


@pytest.mark.parametrize('leaf', ['pspnet_mobilevitv2_050_ade20k', 'semfpn_swiftformer_l1_ade20k'])
def test_the_loss_is_the_mean_over_labelled_pixels_for_mobilevitv2_only(leaf):
    model = build(load(leaf))
    batch = random_batch(150, (64, 64))
    labels = torch.stack([sample.gt_sem_seg.data[0] for sample in batch['data_samples']])
    logits = torch.randn(2, 150, 64, 64)
    losses = model.decode_head.loss_by_feat(logits, batch['data_samples'])
    mean = torch.nn.functional.cross_entropy(logits, labels, ignore_index=255)
    if leaf.startswith('semfpn'):
        mean = mean * (labels != 255).float().mean()  # over all pixels
    torch.testing.assert_close(losses['loss_ce'], mean)


@pytest.mark.parametrize('leaf', SLIM)
def test_the_recipe_of_mobilevitv2_is_that_of_its_authors(leaf):
    config = load(leaf)
    ade20k = leaf.endswith('ade20k')
    iterations = 151_680 if ade20k else 50_000
    optimizer = dict(config.optim_wrapper.optimizer)
    if ade20k:
        assert optimizer == dict(type='SGD', lr=0.02, momentum=0.9, weight_decay=1e-4)
    else:
        assert optimizer == dict(type='AdamW', lr=5e-4, weight_decay=0.05)
        warm_up = config.param_scheduler[0]
        assert (warm_up.start_factor, warm_up.end, warm_up.by_epoch) == (0.1, 500, False)
    cosine = config.param_scheduler[-1]
    assert (cosine.type, cosine.begin, cosine.end) == ('CosineAnnealingLR', 0, iterations)
    assert cosine.eta_min == (2e-4 if ade20k else 1e-6)
    assert config.train_cfg.max_iters == iterations
    assert dict(config.optim_wrapper.clip_grad) == dict(max_norm=10, norm_type=2)
    assert config.custom_hooks == [dict(type='EMAHook', momentum=5e-4, update_buffers=True)]
    assert config.sync_bn == 'torch'
    assert config.train_dataloader.batch_size * 4 == config.auto_scale_lr.base_batch_size
    assert config.auto_scale_lr.base_batch_size == (16 if ade20k else 128)
    model = config.model
    assert model.backbone.output_stride == (8 if ade20k else 16)
    assert model.backbone.init_cfg.checkpoint == (
        f'hf://timm/mobilevitv2_{model.backbone.arch}.cvnets_in1k'
    )
    assert model.backbone.arch == leaf.split('_')[2]
    assert (model.data_preprocessor.mean, model.data_preprocessor.std) == ([0.0] * 3, [255.0] * 3)
    assert model.data_preprocessor.bgr_to_rgb
    assert model.auxiliary_head.loss_decode.loss_weight == 0.4
    for head in (model.decode_head, model.auxiliary_head):
        assert head.align_corners
        assert head.dropout_ratio == 0.1
        assert head.num_classes == (150 if ade20k else 21)
    if leaf.startswith('deeplabv3'):
        assert model.decode_head.dilations == ((12, 24, 36) if ade20k else (6, 12, 18))


@pytest.mark.parametrize('leaf', [leaf for leaf in LEAVES if leaf.startswith('semfpn')])
def test_the_recipe_of_semantic_fpn_is_that_of_the_papers(leaf):
    config = load(leaf)
    optimizer = config.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ('AdamW', 2e-4, 1e-4)
    assert set(config.optim_wrapper) == {'type', 'optimizer'}  # no exclusions, no clipping
    (poly,) = config.param_scheduler
    assert (poly.type, poly.power, poly.begin) == ('PolyLR', 0.9, 0)
    assert poly.eta_min == 1e-6
    assert poly.end == config.train_cfg.max_iters == ITERATIONS.get(leaf, 40_000)
    assert config.train_dataloader.batch_size * 8 == config.auto_scale_lr.base_batch_size == 32
    assert 'custom_hooks' not in config
    assert 'auxiliary_head' not in config.model
    assert not config.model.decode_head.align_corners
    backbone = config.model.backbone
    if 'efficientformerv2' in leaf:
        assert config.sync_bn == 'torch'
        assert backbone.resolution == 512
        rates = dict(s0=0.0, s1=0.0, s2=0.02, l=0.1)
        assert backbone.get('drop_path_rate', 0.0) == rates[backbone.arch]
        assert backbone.get('attention') == ('mobile' if 'mobiatt' in leaf else None)
    else:
        assert 'sync_bn' not in config  # the backbones keep plain batch norm
        assert config.model.decode_head.norm_cfg.type == 'SyncBN'


@pytest.mark.parametrize('leaf', ['pspnet_mobilevitv2_050_ade20k', 'pspnet_mobilevitv2_050_voc12'])
def test_only_what_has_one_dimension_escapes_weight_decay(leaf):
    from mmengine.optim import build_optim_wrapper

    config = load(leaf)
    model = build(config)
    wrapper = build_optim_wrapper(model, config.optim_wrapper)
    decay = config.optim_wrapper.optimizer.weight_decay
    for group in wrapper.optimizer.param_groups:
        (parameter,) = group['params']
        assert group['weight_decay'] == (0.0 if parameter.ndim == 1 else decay)
        assert group['lr'] == config.optim_wrapper.optimizer.lr


def test_the_rate_on_voc_rises_for_500_iterations_and_follows_the_cosine():
    from mmengine.registry import PARAM_SCHEDULERS

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=5e-4)
    schedulers = [
        PARAM_SCHEDULERS.build(dict(**scheduler, optimizer=optimizer))
        for scheduler in load('pspnet_mobilevitv2_050_voc12').param_scheduler
    ]
    rates = []
    for _ in range(50_000):
        rates.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    assert rates[0] == pytest.approx(5e-5)
    for iteration in (600, 10_000, 25_000, 49_000):
        cosine = (1 + np.cos(np.pi * iteration / 50_000)) / 2
        assert rates[iteration] == pytest.approx(1e-6 + (5e-4 - 1e-6) * cosine, rel=0.01)


@pytest.mark.parametrize('leaf', ['pspnet_mobilevitv2_050_ade20k', 'semfpn_swiftformer_l1_ade20k'])
def test_in_a_distributed_run_batch_norm_spans_the_processes_where_the_recipe_says_so(leaf):
    from mmengine.model import convert_sync_batchnorm

    config = load(leaf)
    with torch.device('meta'):
        model = build(config)
        if 'sync_bn' in config:
            model = convert_sync_batchnorm(model, config.sync_bn)
    norms = {(name.split('.')[0], type(module)) for name, module in model.named_modules()}
    plain = {part for part, kind in norms if kind is torch.nn.BatchNorm2d}
    synced = {part for part, kind in norms if issubclass(kind, torch.nn.SyncBatchNorm)}
    if leaf.startswith('pspnet'):
        assert (plain, synced) == (set(), {'backbone', 'decode_head', 'auxiliary_head'})
    else:
        assert (plain, synced) == ({'backbone'}, {'decode_head'})


@pytest.mark.parametrize('leaf', ['pspnet_mobilevitv2_050_ade20k', 'semfpn_shvit_s4_ade20k'])
def test_the_pipelines_read_ade20k(leaf, ade_shapes, monkeypatch):
    from mmseg.registry import DATASETS

    monkeypatch.setenv('DATA_ROOT', str(ade_shapes))
    config = load(leaf)
    init_default_scope('mmseg')
    train = DATASETS.build(config.train_dataloader.dataset)
    assert len(train) == 2
    divisor = 8 if leaf.startswith('pspnet') else 32
    for index in range(len(train)):
        sample = train[index]
        labels = sample['data_samples'].gt_sem_seg.data
        assert sample['inputs'].dtype == torch.uint8
        assert labels.shape[1:] == sample['inputs'].shape[1:]
        if leaf.startswith('pspnet'):
            assert sample['inputs'].shape == (3, 512, 512)
            assert labels[0, 0, 0] == 255 or labels[0, 0, -1] == 255  # a corner is rotated out
        assert max(sample['inputs'].shape[1:]) <= 512
        found = set(labels.unique().tolist())
        assert found <= {*range(150), 255}
        assert len(found) > 2
    tested = DATASETS.build(config.val_dataloader.dataset)[0]
    height, width = tested['inputs'].shape[1:]
    assert (height % divisor, width % divisor) == (0, 0)
    assert min(height, width) == 512
    # the labels are those of the file, whatever the size of the input
    assert tested['data_samples'].gt_sem_seg.data.shape[1:] == tested['data_samples'].ori_shape


@pytest.mark.slow
def test_a_run_on_ade20k_trains_averages_and_evaluates(ade_shapes, tmp_path):
    from mmeffvit.engine.launch import RunOptions, train

    load_image, pack = dict(type='LoadImageFromFile'), dict(type='PackSegInputs')
    load_labels = dict(type='LoadAnnotations', reduce_zero_label=True)
    resize = dict(type='Resize', scale=(128, 64))
    loader = dict(num_workers=0, persistent_workers=False)
    options = {
        'data_root': str(ade_shapes),
        'train_cfg.max_iters': 2,
        'train_cfg.val_interval': 2,
        'model.backbone.init_cfg': None,
        'train_dataloader.batch_size': 2,
        'train_dataloader.dataset.pipeline': [load_image, load_labels, resize, pack],
        'val_dataloader.dataset.pipeline': [load_image, resize, load_labels, pack],
        **{f'{s}_dataloader.{k}': v for s in ('train', 'val') for k, v in loader.items()},
    }
    runner = train(
        str(ROOT / 'configs' / 'pspnet_mobilevitv2_050_ade20k.py'),
        RunOptions(work_dir=str(tmp_path), cfg_options=options, seed=0),
    )
    assert runner.iter == 2
    assert 0 <= runner.message_hub.get_scalar('val/mIoU').current() <= 100
    assert 'ema_state_dict' in load_torch_file(tmp_path / 'iter_2.pth')
