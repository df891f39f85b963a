"""Configs and ``--cfg-options``: mistakes, odd files, values that cannot work."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile.commands import command, needs, train
from tests.hostile.damage import damaged
from tests.hostile.judge import Case
from tests.hostile.world import World, dice

COMMANDS: dict[str, Callable[[str], Any]] = {
    'train': lambda name: train(config=name),
    'test': lambda name: command('test', name, 'run/epoch_2.pth', '--work-dir', 'work'),
    'check the model': lambda name: command('check', name, '--no-data'),
    'check the data': lambda name: command('check', name, '--no-model'),
    'complexity': lambda name: command('complexity', name),
    'browse': lambda name: command('browse', name, '--out-dir', 'browsed'),
    'predict': lambda name: command(
        'predict', name, 'run/epoch_2.pth', 'shapes/val2017', '--out-dir', 'pictures'
    ),
    'export': lambda name: command('export', name, 'run/epoch_2.pth', 'out.onnx'),
    'per-class': lambda name: command('per-class', name, 'found.pkl', '--out-dir', 'classes'),
}
WITHOUT_MODEL = ('check the data', 'browse', 'per-class')
READY = ('detector.py', 'shapes', 'run/epoch_2.pth', 'found.pkl')


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY)

    def prepare(make: Callable[[Path], Any], folder: Path) -> None:
        ready(folder)
        make(folder)

    for number, (what, (name, make)) in enumerate(FILES.items()):
        names = list(COMMANDS)
        for how in names if more > 1 else dict.fromkeys((names[number % len(names)], 'complexity')):
            is_read = how in WITHOUT_MODEL and 'model' in what
            yield Case('configs: files', f'{what}, {how}', COMMANDS[how](name),
                       partial(prepare, make), expect='either' if is_read else 'reject',
                       codes=(1, 2) if how.startswith('check') else (2,))  # fmt: skip
    for number, options in enumerate(OPTIONS):
        if more > 1 or number % 2:
            yield Case('configs: values', f'{" ".join(options)[:60]}, train', train(*options),
                       ready)  # fmt: skip
        if more > 1:
            for part in ('--no-data', '--no-model'):
                yield Case('configs: values', f'{" ".join(options)[:60]}, check {part}',
                           command('check', 'detector.py', part, '--cfg-options', *options), ready,
                           expect='either', codes=(1, 2))  # fmt: skip
    for option in MISFITS:
        yield Case('configs: values', f'{option}, check',
                   command('check', 'detector.py', '--no-data', '--cfg-options', option), ready,
                   codes=(1, 2))  # fmt: skip
    for what, arguments in ARGUMENTS.items():
        yield Case('configs: arguments', what, command(*arguments), ready)
    text = (world / 'detector.py').read_bytes()
    for number in range(6 * more):

        def spoil(folder: Path, number: int = number) -> None:
            (folder / 'x.py').write_bytes(damaged(text, dice('config', seed, number)))

        yield Case('configs: random', f'{number}', COMMANDS['complexity']('x.py'),
                   partial(prepare, spoil), expect='either')  # fmt: skip


def text(content: str | bytes, name: str = 'x.py') -> tuple[str, Callable[[Path], Any]]:
    data = content if isinstance(content, bytes) else content.encode()
    return name, lambda folder: (folder / name).write_bytes(data)


def circle(folder: Path) -> None:
    (folder / 'x.py').write_text("_base_ = 'y.py'")
    (folder / 'y.py').write_text("_base_ = ['x.py']")


def closed(folder: Path) -> None:
    (folder / 'x.py').write_text('')
    (folder / 'x.py').chmod(0)


BASE = "_base_ = 'detector.py'\n"
FILES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    'empty': text(''),
    'no Python': text('model = dict('),
    'indented': text('  model = 5'),
    'no text': text(b'\xff\xfe\x00'),
    'Latin-1': text('# \xe9'.encode('latin1') + b'\nx = 1'),
    'zero byte': text(b'x = 1\0'),
    'unknown name': text(BASE + 'model = dict(backbone=nothing)'),
    'division': text(BASE + 'x = 1 / 0'),
    'exit': text(BASE + 'exit(0)'),
    'exception': text(BASE + "raise ValueError('two\\nlines')"),
    'deep': text('x = ' + '[' * 2000 + ']' * 2000),
    'endless recursion': text('def f():\n    return f()\nx = f()'),
    'no module': text('import nothing_of_that_name'),
    'custom imports of nothing': text(BASE + "custom_imports = dict(imports=['nothing_there'])"),
    'custom imports are odd': text(BASE + 'custom_imports = 5'),
    'base of itself': text("_base_ = 'x.py'"),
    'circle': ('x.py', circle),
    'base that is missing': text("_base_ = 'nothing.py'"),
    'base is a number': text('_base_ = 5'),
    'base is a folder': text("_base_ = 'shapes'"),
    'base of a package that is none': text("_base_ = 'nothing::a.py'"),
    'same key in two bases': ('x.py', lambda f: (
        (f / 'a.py').write_text('a = 1'), (f / 'b.py').write_text('a = 2'),
        (f / 'x.py').write_text("_base_ = ['a.py', 'b.py']"))),
    'no scope': text('model = dict()'),
    'scope of another': text("default_scope = 'mmpose'\nmodel = dict()"),
    'scope is a list': text('default_scope = []\nmodel = dict()'),
    'no model': text(BASE + 'model = None'),
    'model without a type': text(BASE + 'model = dict(_delete_=True)'),
    'a value over a dict': text(BASE + "model = 'x'"),
    'a dict over a value': text(BASE + 'data_root = dict(a=1)'),
    'missing': ('x.py', lambda f: None),
    'folder': ('x.py', lambda f: (f / 'x.py').mkdir()),
    'pipe': ('x.py', lambda f: os.mkfifo(f / 'x.py')),
    'device': ('x.py', lambda f: (f / 'x.py').symlink_to('/dev/zero')),
    'loop of links': ('x.py', lambda f: (f / 'x.py').symlink_to('x.py')),
    'closed': ('x.py', closed),
    'long name': ('n' * 300 + '.py', lambda f: None),
    'JSON': text('{"model": ', 'x.json'),
    'JSON of a list': text('[1]', 'x.json'),
    'YAML': text('a: [', 'x.yaml'),
    'YAML with a tag': text('a: !nothing b', 'x.yaml'),
    'YAML of references that double': text(
        'a0: &a0 [x, x]\n' + ''.join(f'a{i + 1}: &a{i + 1} [*a{i}, *a{i}]\n' for i in range(5))
        + 'default_scope: 5\n', 'x.yaml'
    ),
    'another type': text('x = 1', 'x.txt'),
    'a checkpoint': ('run/epoch_2.pth', lambda f: None),
}  # fmt: skip

OPTIONS: tuple[tuple[str, ...], ...] = (
    ('a',), ('=3',), ('x=[(1,2]',), ('model=5',), ('model=None',),
    ('model.backbone=5',), ('model.backbone=None',), ('model.neck=5',),
    ('model.backbone.type=Nothing',), ('model.backbone.arch=nothing',),
    ('model.backbone.nothing=3',), ('model.backbone.out_indices=[0,9]',),
    ('model.backbone.drop_path_rate=2',), ('model.backbone.frozen_stages=99',),
    ('model.data_preprocessor.std=0',), ('model.data_preprocessor.std=[1,0,1]',),
    ('model.data_preprocessor.std=[1,1]',), ('model.data_preprocessor.mean=a',),
    ('model.data_preprocessor.pad_size_divisor=0',),
    ('optim_wrapper.optimizer.lr=-1',), ('optim_wrapper.optimizer.lr=a',),
    ('optim_wrapper.optimizer.lr=None',), ('optim_wrapper.optimizer.weight_decay=-5',),
    ('optim_wrapper.optimizer.type=AdamV',), ('optim_wrapper.optimizer.betas=5',),
    ('optim_wrapper.type=Nothing',), ('optim_wrapper=None',), ('optim_wrapper.clip_grad=a',),
    ('train_dataloader.batch_size=0',), ('train_dataloader.batch_size=a',),
    ('train_dataloader.batch_size=-3',), ('train_dataloader.num_workers=-2',),
    ('train_dataloader.dataset=5',), ('train_dataloader.dataset.type=CoccoDataset',),
    ('train_dataloader.dataset.pipeline=5',), ('train_dataloader.dataset.pipeline=[]',),
    ('train_dataloader.dataset.pipeline.2.type=RandmFlip',),
    ('train_dataloader.dataset.pipeline.2.prob=7',),
    ('train_dataloader.dataset.ann_file=5',), ('train_dataloader.dataset.ann_file=nothing',),
    ('train_dataloader.dataset.data_prefix.img=nothing',),
    ('train_dataloader.dataset.metainfo.classes=5',),
    ('train_dataloader.dataset.metainfo.classes=[a,b]',),
    ('train_dataloader.sampler.type=Nothing',), ('train_dataloader=None',),
    ('val_evaluator.metric=miou',), ('val_evaluator.type=Nothing',),
    ('val_evaluator.ann_file=nothing',), ('val_dataloader=None',),
    ('train_cfg.max_epochs=0',), ('train_cfg.max_epochs=-1',), ('train_cfg.max_epochs=a',),
    ('train_cfg=None',), ('train_cfg.type=Nothing',), ('param_scheduler.0.type=Nothing',),
    ('param_scheduler=5',), ('default_hooks.checkpoint.interval=a',), ('default_hooks=5',),
    ('default_hooks.logger.type=Nothing',), ('custom_hooks=5',), ('env_cfg=5',),
    ('data_root=nothing',), ('data_root=/dev/zero',), ('data_root=',),
    ('load_from=nothing',), ('load_from=5',), ('randomness.seed=a',), ('randomness=5',),
    ('log_level=NOTHING',), ('visualizer.type=Nothing',), ('work_dir=5',),
    ('model.test_cfg.rcnn.nms=5',), ('runner_type=Nothing',), ('log_processor.window_size=a',),
    ('randomness=None', 'model.type=Nothing'),
)  # fmt: skip
# what the check before a run finds, or the first step would
MISFITS: tuple[str, ...] = (
    'model.rpn_head.anchor_generator.strides=[4]', 'model.roi_head.bbox_head.num_classes=2',
    'model.neck.in_channels=[1,2,3,4]', 'model.neck.num_outs=2',
    'model.data_preprocessor.mean=[1,2]', 'model.backbone.out_indices=[0,1]',
)  # fmt: skip

ARGUMENTS: dict[str, tuple[object, ...]] = {
    'no config': ('train',),
    'unknown argument': ('train', 'detector.py', '--nothing'),
    'seed is a text': ('train', 'detector.py', '--seed', 'a'),
    'seed is negative': ('train', 'detector.py', '--no-check', '--work-dir', 'w', '--seed', -5),
    'seed is huge': ('train', 'detector.py', '--no-check', '--work-dir', 'w', '--seed', 2**70),
    'launcher': ('train', 'detector.py', '--launcher', 'pytorch'),
    'launcher of slurm': ('train', 'detector.py', '--launcher', 'slurm'),
    'amp': ('train', 'detector.py', '--amp', '--no-check', '--work-dir', 'w'),
    'complexity of nothing': ('complexity', 'Nothing:s'),
    'complexity of no variant': ('complexity', 'SwiftFormer:nothing'),
    'complexity of no argument': ('complexity', 'SwiftFormer:xs:nothing=3'),
    'complexity of 0 pixels': ('complexity', 'SwiftFormer:xs', '--shape', 0, 0),
    'complexity of negative pixels': ('complexity', 'SwiftFormer:xs', '--shape', -64, 64),
    'complexity of giant images': ('complexity', 'SwiftFormer:xs', '--shape', 10**9, 10**9),
    'complexity of negative proposals': ('complexity', 'detector.py', '--proposals', -5),
    'attention of 0 pixels': (
        'attention', 'SwiftFormer:xs', 'shapes/val2017/000000.png', '--size', 0, 0, '--out', 'o'),
    'attention outside': (
        'attention', 'SwiftFormer:xs', 'shapes/val2017/000000.png', '--query', 9999, -1,
        '--out', 'o'),
    'attention of no layer': (
        'attention', 'SwiftFormer:xs', 'shapes/val2017/000000.png', '--layers', 'nothing',
        '--out', 'o'),
    'heads of a model without': (
        'analyze-heads', 'detector.py', 'run/epoch_2.pth', '--out', 'o'),
    'prune heads that are not there': (
        'prune', 'detector.py', 'run/epoch_2.pth', '--out', 'o.pth'),
    'prune to more': ('prune', 'detector.py', 'run/epoch_2.pth', '--keep', 7, '--out', 'o.pth'),
    'prune to nan': ('prune', 'detector.py', 'run/epoch_2.pth', '--keep', 'nan', '--out', 'o.pth'),
    'prune by nothing': (
        'prune', 'detector.py', 'run/epoch_2.pth', '--method', 'nothing', '--out', 'o.pth'),
    'prune into the config': (
        'prune', 'detector.py', 'run/epoch_2.pth', '--out', 'detector.py'),
    'browse a negative number': ('browse', 'detector.py', '--number', -3, '--out-dir', 'o'),
    'browse nothing': ('browse', 'detector.py', '--number', 0, '--out-dir', 'o'),
    'check a negative number': ('check', 'detector.py', '--num-images', -3),
    'predict at a score of 7': (
        'predict', 'detector.py', 'run/epoch_2.pth', 'shapes/val2017', '--score-thr', 7),
    'predict at no score': (
        'predict', 'detector.py', 'run/epoch_2.pth', 'shapes/val2017', '--score-thr', 'nan'),
    'predict batches of 0': (
        'predict', 'detector.py', 'run/epoch_2.pth', 'shapes/val2017', '--batch-size', 0),
    'predict on no device': (
        'predict', 'detector.py', 'run/epoch_2.pth', 'shapes/val2017', '--device', 'nothing'),
    'predict on a device that is not there': (
        'predict', 'detector.py', 'run/epoch_2.pth', 'shapes/val2017', '--device', 'cuda:99'),
    'predict nothing': ('predict', 'detector.py', 'run/epoch_2.pth', 'nothing/*.png'),
    'export of 0 pixels': ('export', 'detector.py', 'run/epoch_2.pth', 'o.onnx', '--shape', 0, 0),
    'export of a negative batch': (
        'export', 'detector.py', 'run/epoch_2.pth', 'o.onnx', '--batch', -1),
    'export to an unknown type': ('export', 'detector.py', 'run/epoch_2.pth', 'o.xyz'),
    'export at opset 3': ('export', 'detector.py', 'run/epoch_2.pth', 'o.onnx', '--opset', 3),
    'export with an image that is none': (
        'export', 'detector.py', 'run/epoch_2.pth', 'o.onnx', '--image', 'detector.py'),
    'suite of nothing': ('suite', 'nothing*.py', '--work-dir', 'w'),
    'suite on 0 GPUs': ('suite', 'detector.py', '--work-dir', 'w', '--gpus', 0),
    'suite with negative GPUs': (
        'suite', 'detector.py', '--work-dir', 'w', '--gpus', -4, '--print', 'slurm'),
    'curves of nothing': ('curves', 'nothing'),
    'VOC from nothing': ('prepare-voc-coco', '--coco', 'nothing', '--voc', 'no', '--out', 'o'),
}  # fmt: skip
