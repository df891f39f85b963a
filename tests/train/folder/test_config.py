"""The config that is written for a dataset: any model of ours, sizes and rates that follow."""

import logging
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.registry import DATASETS, HOOKS, PARAM_SCHEDULERS

from mmeffvit.config.beside import Code, assign, to_code
from mmeffvit.config.build import isolated
from mmeffvit.config.datasets import datasets_of, eval_shape, mentions, settings_of
from mmeffvit.config.load import load_config
from mmeffvit.data.faults import Findings
from mmeffvit.data.records import DataSet, Object, Picture
from mmeffvit.data.write import Split, write_coco
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.train.folder.advice import advice
from mmeffvit.train.folder.base import Base, Start, find_start
from mmeffvit.train.folder.recipe import (
    Overrides,
    class_weights,
    fit_rate,
    fit_validations,
    fit_warm_up,
    make_recipe,
    why_one_process,
)
from mmeffvit.train.folder.run import from_scratch_notice
from mmeffvit.train.folder.write_config import Teaching, schedule, write_config
from mmeffvit.zoo import read_models
from tests.configs.models import one_of_each_head_and_family
from tests.variants import sampled

MODELS = [
    name
    for name, model in read_models().items()
    if model.config is not None and 'classification' not in model.tasks
]
SCRATCH = Start('random weights')
PIXELS = (9, 4, 1)  # of three classes; also objects of an image


def write(
    folder: Path,
    name: str,
    overrides: Overrides | None = None,
    start: Start = SCRATCH,
    count: int = 80,
    size: tuple[int, int] = (90, 120),
    teaching: Teaching | None = None,
    num_empty: int = 0,
) -> Config:
    """The config for a set of three classes, as it is read."""
    base, overrides = Base.of(name), overrides or Overrides(image_size=base_size(name))
    maps = {0: 0, 1: 1, 2: 2} if base.is_segmentor else {}
    objects = [
        Object(label, (8, 8, 30, 20), 'set:1', score=0.5)
        for label, times in enumerate(PIXELS)
        for _ in range(times)
    ]
    pictures = [
        Picture(folder / 'set' / f'{i}.jpg', objects if i >= num_empty else [], size=size)
        for i in range(count)
    ]
    data = DataSet('YOLO', folder / 'set', ['a', 'b', 'c'], {'train': pictures}, Findings(), maps)
    split = Split(folder / 'index' / 'train.json', folder / 'set' / 'images', count, PIXELS)
    recipe = make_recipe(base, pictures, overrides, from_scratch=start.is_scratch)
    path = folder / f'{name}.py'
    splits = dict(train=split, val=split)
    write_config(path, base, data, splits, recipe, overrides, start, teaching)
    lines = path.read_text().splitlines()
    assert max(len(line) for line in lines if not line.startswith('_base_')) <= 100
    return load_config(path)


@pytest.mark.parametrize(
    'name',
    ['rtmdet_swiftformer_xs', 'gflite_shvit_s1', 'ssdlite_mobilevitv2_050', 'retinanet_shvit_s4',
     'maskrcnn_swiftformer_xs_shapes', 'deformabledetr_shvit_s4_single_head',
     'segformer_shvit_s1_ade20k'],
)  # fmt: skip
def test_students_of_every_head_draw_predictions_by_their_scores(name, tmp_path):
    config = write(tmp_path, name, Overrides(), teaching=Teaching(sure=0.7))
    pipelines = [config.train_pipeline, *filter(None, [config.get('last_pipeline')])]
    for pipeline in pipelines:
        kinds = [step['type'] for step in pipeline]
        assert kinds.count('mmeffvit.SampleByScore') == (not Base.of(name).is_segmentor)
        if not Base.of(name).is_segmentor:
            place = kinds.index('mmeffvit.SampleByScore')
            assert kinds[place + 1] == 'LoadAnnotations'


def base_size(name: str) -> int:
    """Half the size of the base, to see that all sizes are halved."""
    return Base.of(name).image_size // 2 // 32 * 32


@pytest.mark.parametrize('name', sampled(MODELS, one_of_each_head_and_family()))
def test_every_model_of_ours_can_be_fine_tuned(name, tmp_path):
    base, config = Base.of(name), write(tmp_path, name)
    found = [settings['num_classes'] for settings in with_class_counts(config.model)]
    assert found
    assert set(found) == {3}
    size = base_size(name)
    factor = size / base.image_size
    if base.is_segmentor:
        assert next(settings_of(config.train_dataloader, 'RandomCrop'))['crop_size'] == (size, size)
    else:
        expected = [round(side * factor) for side in eval_shape(base.config)]
        assert list(eval_shape(config)) == expected
    for split in ('train', 'val', 'test'):
        (dataset,) = datasets_of(config, split)
        assert dataset['metainfo']['classes'] == ('a', 'b', 'c')
        assert not mentions(dataset['pipeline'], 'reduce_zero_label')
        assert str(tmp_path / 'index') in dataset['ann_file']
    assert mentions(config.train_dataloader, 'with_mask') == base.needs_masks
    assert config.model.backbone.get('init_cfg') is None
    assert not config.model.backbone.get('norm_eval')
    assert config.model.backbone.get('frozen_stages', -1) == -1
    total = config.epochs * config.iterations
    loop = config.train_cfg
    assert loop.get('max_iters', total) == total
    assert loop.get('max_epochs', config.epochs) == config.epochs
    assert peak_and_end(config) == pytest.approx((config.rate, 0.02 * config.rate), rel=0.05)
    assert config.default_hooks.checkpoint.save_best == base.metric


def test_nothing_is_frozen_from_scratch(tmp_path):
    name = 'deformabledetr_resnet_50'
    scratch = write(tmp_path, name).model.backbone
    assert (scratch.frozen_stages, scratch.norm_eval) == (-1, False)
    assert scratch.norm_cfg == dict(type='BN', requires_grad=True)
    pretrained = write(tmp_path, name, start=Start('x', keeps_backbone=True)).model.backbone
    assert pretrained.to_dict() == Base.of(name).config.model.backbone.to_dict()


@pytest.mark.parametrize(
    ('name', 'scales'),
    [
        ('rtmdet_swiftformer_xs', [(704, 704)]),  # from scratch, without mosaic
        ('segformer_shvit_s1_ade20k', [(3072, 768)]),
        ('ssdlite_mobilevitv2_050', []),  # crops first
        ('pspnet_mobilevitv2_050_voc12', []),  # draws a size between two
    ],
)
def test_large_images_are_decoded_as_small_as_training_needs_them(name, scales, tmp_path):
    config = write(tmp_path, name, Overrides(), size=(3000, 4000))
    found = [tuple(s['scale']) for s in settings_of(config.train_dataloader, 'LoadReduced')]
    assert found == scales
    assert bool(list(settings_of(config.train_dataloader, 'LoadImageFromFile'))) == (not scales)
    for other in (config.val_dataloader, write(tmp_path, name, Overrides()).train_dataloader):
        assert not list(settings_of(other, 'LoadReduced'))


def peak_and_end(config: Config) -> tuple[float, float]:
    """The highest and the last learning rate of a run."""
    weight = torch.nn.Parameter(torch.zeros(1))
    wrapper = OptimWrapper(torch.optim.SGD([weight], lr=config.rate))
    schedulers = []
    for settings in config.to_dict()['param_scheduler']:
        kind = PARAM_SCHEDULERS.get(settings.pop('type'))
        if settings.pop('convert_to_iter_based', False):
            kind = partial(kind.build_iter_from_epoch, epoch_length=config.iterations)
        schedulers.append(kind(wrapper, **settings))
    rates = []
    for _ in range(config.epochs * config.iterations):
        rates.append(wrapper.param_groups[0]['lr'])
        wrapper.optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    return max(rates), rates[-1]


@pytest.mark.parametrize('count', [2, 4, 20, 800])
def test_short_runs_reach_the_learning_rate_too(count, tmp_path):
    for epochs in (1, 3):
        config = write(tmp_path, 'rtmdet_swiftformer_xs', Overrides(epochs=epochs), count=count)
        peak, end = peak_and_end(config)
        assert peak == pytest.approx(config.rate, rel=0.02)
        assert end < 0.6 * peak or epochs == 1


def with_class_counts(settings: object) -> list[dict]:
    if not isinstance(settings, dict):
        return []
    own = [settings] if 'num_classes' in settings else []
    return own + [found for item in settings.values() for found in with_class_counts(item)]


def test_options_are_in_the_config(tmp_path):
    overrides = Overrides(
        image_size=256, batch=4, epochs=40, patience=7, accumulate=2, freeze=1, balance=True,
        processes=2,
    )  # fmt: skip
    start = Start('x', keeps_backbone=True)
    config = write(tmp_path, 'rtmdet_swiftformer_xs', overrides, start)
    assert config.train_dataloader.batch_size == 2  # of each process
    assert config.processes == 2
    assert config.iterations == 20
    assert config.train_dataloader.drop_last
    assert config.train_cfg.max_epochs == 40
    assert config.train_cfg.val_interval == 2
    assert config.optim_wrapper.accumulative_counts == 2
    assert config.model.backbone.frozen_stages == 1
    assert 'timm' in config.model.backbone.init_cfg.checkpoint
    assert config.train_dataloader.dataset.type == 'mmeffvit.ClassBalancedDataset'
    assert config.train_dataloader.dataset.dataset.type == 'CocoDataset'
    hooks = {hook['type']: hook for hook in config.custom_hooks}
    assert (
        hooks['mmeffvit.EarlyStoppingHook']['patience'] == 4
    )  # validations, each after two epochs
    assert hooks['PipelineSwitchHook']['switch_epoch'] == 40 - 6
    assert config.optim_wrapper.optimizer.lr == fit_rate(Base.of('rtmdet_swiftformer_xs'), 8)
    never = write(tmp_path, 'rtmdet_swiftformer_xs', Overrides(patience=0))
    assert 'mmeffvit.EarlyStoppingHook' not in {hook['type'] for hook in never.custom_hooks}


def test_images_of_rare_classes_are_repeated_and_counted_and_their_mosaics_end(tmp_path):
    base, overrides = Base.of('rtmdet_swiftformer_xs'), Overrides(balance=True, batch=4, epochs=10)
    objects = [Object(label, (8, 8, 30, 20), 'x') for label in (0, 1)]
    pictures = [Picture(tmp_path / f'{i}.jpg', objects[: 1 + (i == 7)], size=(64, 64))
                for i in range(80)]  # fmt: skip
    pictures[3].objects = []
    data = DataSet('YOLO', tmp_path, ['a', 'b'], dict(train=pictures, val=pictures), Findings())
    splits = write_coco(data, tmp_path / 'index')
    recipe = make_recipe(base, pictures, overrides)
    start = Start('x', keeps_backbone=True)
    write_config(tmp_path / 'x.py', base, data, splits, recipe, overrides, start)
    config = load_config(tmp_path / 'x.py')
    with isolated('mmdet'):
        dataset = DATASETS.build(config.train_dataloader.dataset)
        (hook,) = settings_of(config.custom_hooks, 'PipelineSwitchHook')
        loader = SimpleNamespace(dataset=dataset)
        runner = SimpleNamespace(epoch=9, train_dataloader=loader, logger=logging.getLogger('x'))
        HOOKS.build(hook).before_train_epoch(runner)
    assert list(settings_of(config.train_pipeline, 'CachedMosaic'))
    assert len(dataset) == 79 + 5  # the root of 0.3 / (1 / 80), rounded up
    assert config.iterations == len(dataset) // 4
    steps = dataset.dataset.pipeline.transforms
    assert 'CachedMosaic' not in {type(step).__name__ for step in steps}
    assert dataset.pipeline is dataset.dataset.pipeline


def test_from_scratch_few_images_are_learned_without_mosaic_at_the_full_rate(tmp_path):
    name = 'rtmdet_swiftformer_xs'
    base = Base.of(name)
    scratch = write(tmp_path, name, Overrides(batch=8))
    assert not list(settings_of(scratch.train_pipeline, 'CachedMosaic'))
    for epochs, scales in ((124, (0.9, 1.1)), (125, (0.75, 1.5))):  # of 80 images
        config = write(tmp_path, name, Overrides(batch=8, epochs=epochs))
        (resize,) = settings_of(config.train_pipeline, 'RandomResize')
        assert resize['ratio_range'] == scales
    wide = write(tmp_path, name, Overrides(image_size=320), size=(480, 640))
    for kind, key in (('RandomCrop', 'crop_size'), ('Pad', 'size')):
        (step,) = settings_of(wide.train_pipeline, kind)
        assert step[key] == (320, 256)  # width first, in multiples of 32
    (pad,) = settings_of(wide.test_pipeline, 'Pad')
    assert pad['size'] == (320, 320)
    assert 'PipelineSwitchHook' not in {hook['type'] for hook in scratch.custom_hooks}
    assert scratch.rate == base.optimizer['lr']
    assert scratch.model.bbox_head.loss_cls.class_weight == [0.78, 1.17, 2.33]
    long = write(tmp_path, name, Overrides(batch=8, epochs=1000))
    started = write(tmp_path, name, Overrides(batch=8), Start('x', keeps_backbone=True))
    for config in (long, started):
        assert list(settings_of(config.train_pipeline, 'CachedMosaic'))
        assert 'PipelineSwitchHook' in {hook['type'] for hook in config.custom_hooks}
    assert started.model.bbox_head.loss_cls.type == 'QualityFocalLoss'  # not measured
    assert started.rate == fit_rate(base, 8) < scratch.rate
    assert fit_rate(base, 1024, from_scratch=True) == fit_rate(base, 1024)
    sgd = Base.of('pspnet_mobilevitv2_050_ade20k')
    assert fit_rate(sgd, 4, from_scratch=True) == fit_rate(sgd, 4)


@pytest.mark.parametrize('start', [SCRATCH, Start('x', keeps_backbone=True)])
def test_no_image_without_objects_and_no_small_one_is_left_out(start, tmp_path):
    for number in (0, 1):
        config = write(tmp_path, 'rtmdet_swiftformer_xs', start=start, num_empty=number)
        crops = list(settings_of([config.train_dataloader, config.custom_hooks], 'RandomCrop'))
        assert {crop.get('allow_negative_crop', False) for crop in crops} == {number == 1}
        assert config.train_dataloader.dataset.filter_cfg.min_size == 0


@pytest.mark.parametrize(
    ('name', 'accumulate', 'is_kept'),
    [('rtmdet_swiftformer_xs', 1, True), ('rtmdet_swiftformer_xs', 64, False),
     ('segformer_swiftformer_xs_ade20k', 1, False)],
)  # fmt: skip
def test_the_rate_from_scratch_is_kept_where_it_would_be_lowered(name, accumulate, is_kept):
    base, overrides = Base.of(name), Overrides(batch=8, accumulate=accumulate)
    pictures = [Picture(Path('x'), size=(64, 64))] * 400
    recipe = make_recipe(base, pictures, overrides, from_scratch=True)
    notice = from_scratch_notice(base, recipe, overrides)
    assert ('the learning rate of the base is kept' in notice) == is_kept


def test_a_segmentor_from_scratch_keeps_the_size_of_its_images_and_gets_enough_steps(tmp_path):
    name = 'segformer_swiftformer_xs_ade20k'
    config = write(tmp_path, name, Overrides(), size=(360, 480), count=367)
    (crop,) = settings_of(config.train_dataloader, 'RandomCrop')
    (resize,) = settings_of(config.val_dataloader, 'Resize')
    assert crop['crop_size'] == config.model.data_preprocessor.size == (256, 352)  # half the area
    assert min(resize['scale']) == 360
    assert config.rate == 1e-3
    assert config.train_dataloader.batch_size * config.get('processes', 1) == 8
    assert 2000 <= config.epochs * config.iterations < 2100
    assert config.custom_hooks[0].momentum == 0.01  # of EMA weights, from the steps
    weights = config.model.decode_head.loss_decode.class_weight
    assert weights == [0.78, 1.17, 2.33]  # inverse to the roots of 9, 4 and 1
    assert sum(w * count for w, count in zip(weights, PIXELS, strict=True)) == pytest.approx(
        14, 0.01
    )
    assert class_weights((10**6, 1, 0)) == [1.0, 10.0, 10.0]
    pretrained = Start('x', keeps_backbone=True)
    finetuned = write(tmp_path, name, start=pretrained)
    assert finetuned.model.decode_head.loss_decode.type == 'CrossEntropyLoss'
    balanced = write(tmp_path, name, Overrides(balance=True), pretrained)
    assert balanced.model.decode_head.loss_decode.class_weight == weights
    other = write(tmp_path, 'deeplabv3_mobilevitv2_050_ade20k', Overrides(), size=(240, 416))
    (crop,) = settings_of(other.train_dataloader, 'RandomCrop')
    (pad,) = settings_of(other.train_dataloader, 'Pad')
    assert (crop['crop_size'], pad['size']) == ((240, 288), (288, 240))  # mmcv's: width first
    large = write(tmp_path, name, Overrides(), size=(2048, 1024))
    assert large.model.data_preprocessor.size == (352, 352)
    small = write(tmp_path, name, Overrides(), size=(96, 300))
    assert small.model.data_preprocessor.size == (96, 256)
    tuned = write(tmp_path, name, Overrides(), Start('x', 'x.pth'), size=(360, 480), count=367)
    assert tuned.rate == fit_rate(Base.of(name), 8) < 6e-5
    assert tuned.model.data_preprocessor.size == (512, 512)
    wanted = write(tmp_path, name, Overrides(image_size=512, epochs=3), size=(480, 360))
    assert wanted.model.data_preprocessor.size == (512, 512)
    assert wanted.epochs == 3


def test_classes_that_are_not_learned_are_named_with_what_to_do(tmp_path):
    maps, boxes = (
        write(tmp_path, name, Overrides(epochs=6))
        for name in ('segformer_swiftformer_xs_ade20k', 'rtmdet_swiftformer_xs')
    )
    line, *_ = advice(maps, {'mIoU': 26.7}, unlearned=['sign', 'fence'])
    assert line.startswith('WARNING: IoU is 0 for sign, fence: train longer, with --epochs 12, or')
    line, *_ = advice(boxes, {'box AP': 26.7}, unlearned=['sign'])
    assert line.endswith('12, or --class-balanced, or add images of it')
    balanced = write(tmp_path, 'rtmdet_swiftformer_xs', Overrides(epochs=6, balance=True))
    line, *_ = advice(balanced, {'box AP': 26.7}, unlearned=['sign'])
    assert line.endswith('12, or add images of it')
    (scratch,) = advice(maps, {'mIoU': 26.7})
    assert scratch.startswith('WARNING: trained from random weights')


def test_the_learning_rate_follows_the_batch_size():
    """Its square root for AdamW, the number itself for SGD."""
    rtmdet, pspnet = Base.of('rtmdet_swiftformer_xs'), Base.of('pspnet_mobilevitv2_050_ade20k')
    assert rtmdet.optimizer['type'] == 'AdamW'
    assert fit_rate(rtmdet, 16) == pytest.approx(rtmdet.optimizer['lr'] / 4, rel=0.02)
    assert pspnet.optimizer['type'] == 'SGD'
    ratio = 8 / pspnet.batch_size
    assert fit_rate(pspnet, 8) == pytest.approx(pspnet.optimizer['lr'] * ratio, rel=0.02)


@pytest.mark.parametrize(
    ('sides', 'size'), [((90, 120), 128), ((640, 480), 640), ((4000, 3000), 640), ((20, 20), 64)]
)
def test_the_image_size_is_that_of_the_images_up_to_the_models(sides, size):
    pictures = [Picture(Path('x'), size=sides)] * 20
    recipe = make_recipe(Base.of('rtmdet_swiftformer_xs'), pictures, Overrides())
    assert recipe.image_size == size


def test_fewer_images_get_more_epochs_and_smaller_batches():
    base = Base.of('rtmdet_swiftformer_xs')
    few, many = (
        make_recipe(base, [Picture(Path('x'), size=(64, 64))] * count, Overrides())
        for count in (12, 10_000)
    )
    assert (few.epochs, few.batch * few.processes) == (300, 3)
    assert (many.epochs, many.batch * many.processes) == (10, 8)
    assert fit_warm_up(few.epochs * few.iterations) < few.epochs * few.iterations / 5
    assert fit_warm_up(many.epochs * many.iterations) == 500


def test_the_steps_of_an_epoch_are_those_of_the_sampler_in_several_processes():
    base, pictures = Base.of('rtmdet_swiftformer_xs'), [Picture(Path('x'), size=(64, 64))] * 19
    found = [make_recipe(base, pictures, Overrides(batch=4, processes=n)) for n in (1, 2)]
    assert [recipe.iterations for recipe in found] == [4, 5]  # 19 // 4, and 10 // 2


def test_the_given_rate_is_the_one_that_the_schedule_ends_below():
    base, pictures = Base.of('rtmdet_swiftformer_xs'), [Picture(Path('x'), size=(64, 64))] * 20
    recipe = make_recipe(base, pictures, Overrides(lr=3e-5))
    lines = '\n'.join(schedule(base, recipe, Overrides(lr=3e-5)))
    assert 'rate = 3e-05\n' in lines
    assert 'lr=rate' in lines
    assert 'eta_min=0.02 * rate' in lines


def test_processes_share_a_batch_equally():
    base, pictures = Base.of('rtmdet_swiftformer_xs'), [Picture(Path('x'), size=(64, 64))] * 20
    recipe = make_recipe(base, pictures, Overrides(batch=6, processes=3))
    assert (recipe.batch, recipe.processes, recipe.iterations) == (2, 3, 3)
    assert make_recipe(base, pictures, Overrides(batch=3)).processes == 1
    assert '--batch 4 uses all' in why_one_process(5, None, 9)
    assert why_one_process(4, None, 9) == why_one_process(5, 1, 9) == ''
    assert why_one_process(3, None, 3) == ''  # four images are needed
    shared = make_recipe(base, pictures, Overrides())  # 20 / 4 is odd
    assert (shared.batch, shared.processes) == (2, 2)
    assert make_recipe(base, pictures, Overrides(processes=2)).batch == 2  # 20 / 4, a multiple of 2
    with pytest.raises(UserError, match='--nproc-per-node is 4, which cannot share a batch of 6'):
        make_recipe(base, pictures, Overrides(batch=6, processes=4))
    with pytest.raises(UserError, match='--batch is 32, but the training set has 20 images'):
        make_recipe(base, pictures, Overrides(batch=32))
    for processes, needed in ((None, '1 process needs 2'), (4, '4 processes needs 8')):
        words = f'training in {needed} images, but the training set has 1 image'
        with pytest.raises(UserError, match=words):
            make_recipe(base, pictures[:1], Overrides(processes=processes))


@pytest.mark.parametrize(
    ('overrides', 'words'),
    [
        (dict(image_size=100), '--image-size is 100; give a multiple of 32'),
        (dict(image_size=32), 'from 64 to 8192'),
        (dict(batch=0), '--batch is 0; give 1 or more'),
        (dict(processes=0), '--nproc-per-node is 0; give 1 or more'),
        (dict(patience=-1), '--patience is -1; give 0 or more'),
        (dict(freeze=-1), '--freeze is -1'),
        (dict(epochs=10**20), '--epochs is 1.* or less'),
    ],
)
def test_numbers_that_cannot_be_are_rejected(overrides, words):
    with pytest.raises(UserError, match=words):
        Overrides(**overrides).check()


def test_weights_are_the_backbones_where_they_can_be_had_else_none_with_a_warning(tmp_path, capsys):
    base = Base.of('rtmdet_swiftformer_xs')  # no full model is released for it
    path = tmp_path / 'backbone.pth'
    base.config.model.backbone.init_cfg.checkpoint = str(path)
    assert find_start(base).is_scratch
    said = capsys.readouterr().err
    assert 'WARNING: no pretrained weights for rtmdet_swiftformer_xs' in said
    assert '..' not in said
    assert str(path) in said
    path.write_bytes(b'')
    assert find_start(base).keeps_backbone
    assert find_start(base, 'none').is_scratch
    assert find_start(base, str(path)).checkpoint == str(path)
    with pytest.raises(CheckpointError, match='does not exist'):
        find_start(base, 'no.pth')


VALUES = [
    dict(a=1, b=[1, 2.5], c=('x',), d=dict(e=None, f=[])),
    [dict(type='A', sizes=[(i, 2 * i) for i in range(20)], more=dict(text='x' * 70))],
    dict(long=[dict(name='n' * 30, values=(1, 2)) for _ in range(4)], empty={}, flag=True),
]


@pytest.mark.parametrize('value', VALUES)
def test_code_is_the_value_in_lines_that_are_not_too_long(value):
    code = assign('name', value)
    names: dict = {}
    exec(code, names)
    assert names['name'] == value
    assert max(map(len, code.splitlines())) <= 100


def test_expressions_stay_expressions():
    assert to_code(dict(a=Code('len(x)'), b='len(x)')) == "dict(a=len(x), b='len(x)')"


@pytest.mark.parametrize(
    ('epochs', 'val', 'every'),
    [(32, 87, 2), (11, 87, 2), (10, 205, 2), (1, 205, 1), (300, 20, 15), (5, 0, 1), (40, 205, 4)],
)
def test_validations_are_five_to_twenty_and_cost_little(epochs, val, every):
    assert fit_validations(epochs, 4 * val / 205) == every
