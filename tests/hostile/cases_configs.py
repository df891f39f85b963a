"""Configs and ``--cfg-options``: mistakes, odd files, values that cannot work."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.hostile.commands import Door, command, controls, in_turn, needs, put, train
from tests.hostile.damage import damaged
from tests.hostile.judge import Case
from tests.hostile.world import World, dice

DOORS = {
    'train': Door(
        lambda name: train('train_cfg.max_epochs=1', config=name), makes=('work/epoch_1.pth',)
    ),
    'test': Door(
        lambda name: command('test', name, 'run/epoch_2.pth', '--work-dir', 'work'),
        says=('box AP',),
    ),
    'check the model': Door(
        lambda name: command('check', name, '--no-data'), says=('no errors, checked',)
    ),
    'check the data': Door(
        lambda name: command('check', name, '--no-model'), says=('nothing is broken',)
    ),
    'complexity': Door(lambda name: command('complexity', name), says=('total',)),
    'browse': Door(lambda name: command('browse', name, '--out-dir', 'browsed'), says=('browsed',)),
    'predict': Door(
        lambda name: command(
            'predict', name, 'run/epoch_2.pth', 'shapes/val2017', '--out-dir', 'pictures'
        ),
        makes=('pictures/000000.png',),
    ),
    'export': Door(
        lambda name: command('export', name, 'run/epoch_2.pth', 'out.onnx'), makes=('out.onnx',)
    ),
    'per-class': Door(
        lambda name: command('analyze', 'per-class', name, 'found.pkl', '--out-dir', 'classes'),
        makes=('classes/per_class.md',),
    ),
}
WITHOUT_MODEL = ('check the data', 'per-class')
READY = ('detector.py', 'shapes', 'run/epoch_2.pth', 'found.pkl')


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY)
    yield from controls('configs: files', DOORS, 'detector.py', world, *READY)
    yield Case('configs: files', 'complexity', 'bad', command('complexity', 'nothing.py'), ready,
               says=("'nothing.py' does not exist",), is_control=True)  # fmt: skip
    for what, (name, make, word) in FILES.items():
        for how, door in DOORS.items():
            is_read = how in WITHOUT_MODEL and what in ('no model', 'model without a type')
            yield Case('configs: files', how, what, door.call(name), in_turn(ready, make),
                       expect='work' if is_read else 'reject', codes=(1, 2),
                       says=door.says if is_read else (word,))  # fmt: skip
    yield from option_cases(world)
    text = (world / 'detector.py').read_bytes()
    good = DOORS['complexity']
    yield from controls('configs: random', {'complexity': good}, 'detector.py', world, *READY)
    yield Case('configs: random', 'complexity', 'bad', good.call('x.py'),
               in_turn(ready, FILES['no Python'][1]), says=('x.py',), is_control=True)  # fmt: skip
    for number in range(6 * more):
        content = damaged(text, dice('config', seed, number))
        # a config that can still be read is refused for a name that changed
        names = {name for name in words(content) ^ words(text) if len(name) > 2}
        yield Case('configs: random', 'complexity', f'{number}', good.call('x.py'),
                   put("x.py", content, ready), expect='either',
                   says=(('x.py', *names),))  # fmt: skip


def words(content: bytes) -> set[str]:
    return set(re.findall(r'\w+', content.decode(errors='replace')))


def option_cases(world: World) -> Iterator[Case]:
    """Values of the config, and arguments, which a parser may refuse."""
    ready, group = needs(world, *READY), 'configs: values'
    doors = {how: DOORS[how] for how in ('train', 'check the model', 'check the data')}
    yield from controls(group, doors, 'detector.py', world, *READY)
    yield Case(group, 'train', 'bad', train('model.backbone.arch=nothing'), ready,
               says=("arch is 'nothing'",), is_control=True)  # fmt: skip
    for options, word in OPTIONS.items():
        chosen = {'train': train(*options.split())}
        if options.startswith('model.'):
            chosen['check the model'] = command(
                'check', 'detector.py', '--no-data', '--cfg-options', options
            )
        for how, job in chosen.items():
            yield Case(group, how, options, job, ready, codes=(1, 2), says=(word,),
                       by_parser=options in UNREADABLE)  # fmt: skip
    for how, part, faults in (
        ('check the model', '--no-data', MISFITS), ('check the data', '--no-model', DATA)
    ):  # fmt: skip
        for option, word in faults.items():
            job = command('check', 'detector.py', part, '--cfg-options', option)
            yield Case(group, how, option, job, ready, codes=(1, 2), says=(word,))
    yield from argument_cases(needs(world, 'detector.py', 'shapes', 'run', 'mobile', 'ade'))


def argument_cases(ready: Callable[[Path], Any]) -> Iterator[Case]:
    """A call of every command is good without the argument that is attacked."""
    group = 'configs: arguments'
    good = {
        'train': ((*TRAIN_SEED, 5), 'w/epoch_2.pth'),
        'complexity': ((*COMPLEXITY, '--json', 'o.json'), 'o.json'),
        'analyze attention': (ATTENTION, 'o/000000.npz'),
        'browse': ((*BROWSE, '--num-images', 1), 'o'),
        'check': (('check', 'detector.py', '--num-images', 1), ''),
        'predict': ((*PREDICT, '--out-dir', 'o'), 'o/000000.png'),
        'export': ((*EXPORT, 'o.onnx'), 'o.onnx'),
        'analyze curves': (('analyze', 'curves', 'run', '--out', 'o.png'), 'o.png'),
        'prune': (('prune', *MOBILE, '--method', 'random', '--out', 'o.pth'), 'o.pth'),
        'analyze heads': (
            ('analyze', 'heads', *MOBILE, '--no-ablation', '--out-dir', 'o'),
            'o/heads.json',
        ),
        'suite': (SUITE, 'w/suite.json'),
    }
    for how, (arguments, made) in good.items():
        yield Case(group, how, 'good', command(*arguments), ready, 'work',
                   ('nothing is broken',) if how == 'check' else (),
                   () if how == 'check' else (made,), is_control=True)  # fmt: skip
    yield Case(group, 'train', 'bad', command(*TRAIN, '--x'), ready,
               says=('unrecognized arguments: --x',), is_control=True, by_parser=True)  # fmt: skip
    for what, (word, *arguments) in ARGUMENTS.items():
        door = ' '.join(arguments[: 2 if arguments[0] == 'analyze' else 1])
        yield Case(group, door, what, command(*arguments), ready, says=(word,),
                   by_parser=what in PARSED)  # fmt: skip


def text(content: str | bytes, word: str, name: str = 'x.py') -> tuple[str, Any, str]:
    data = content if isinstance(content, bytes) else content.encode()
    return name, lambda folder: (folder / name).write_bytes(data), word


def circle(folder: Path) -> None:
    (folder / 'x.py').write_text("_base_ = 'y.py'")
    (folder / 'y.py').write_text("_base_ = ['x.py']")


def closed(folder: Path) -> None:
    (folder / 'x.py').write_text('')
    (folder / 'x.py').chmod(0)


def two_bases(folder: Path) -> None:
    (folder / 'a.py').write_text('a = 1')
    (folder / 'b.py').write_text('a = 2')
    (folder / 'x.py').write_text("_base_ = ['a.py', 'b.py']")


BASE = "_base_ = 'detector.py'\n"
ABSENT = "'x.py' does not exist"
FILES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    'empty': text('', 'default_scope is None in x.py'),
    'no Python': text('model = dict(', "x.py: '(' was never closed"),
    'indented': text('  model = 5', 'x.py: unexpected indent'),
    'no text': text(b'\xff\xfe\x00', 'x.py: UnicodeDecodeError'),
    'Latin-1': text('# \xe9'.encode('latin1') + b'\nx = 1', 'x.py: UnicodeDecodeError'),
    'zero byte': text(b'x = 1\0', 'x.py: source code string cannot contain null bytes'),
    'unknown name': text(BASE + 'model = dict(backbone=nothing)', "name 'nothing'"),
    'division': text(BASE + 'x = 1 / 0', 'x.py, line 2: ZeroDivisionError'),
    'exit': text(BASE + 'exit(0)', 'x.py, line 2: SystemExit'),
    'exception': text(BASE + "raise ValueError('two\\nlines')", 'ValueError: two'),
    'deep': text('x = ' + '[' * 2000 + ']' * 2000, 'x.py: too many nested parentheses'),
    'endless recursion': text('def f():\n    return f()\nx = f()', 'RecursionError'),
    'no module': text(BASE + 'x = __import__("nothing_of_that_name")', 'nothing_of_that_name'),
    'custom imports of nothing': text(
        BASE + "custom_imports = dict(imports=['nothing_there'])", 'nothing_there'),
    'custom imports are odd': text(BASE + 'custom_imports = 5', 'x.py: '),
    'base of itself': text("_base_ = 'x.py'", 'x.py: its _base_ files form a cycle'),
    'circle': ('x.py', circle, 'x.py: its _base_ files form a cycle'),
    'base that is missing': text("_base_ = 'nothing.py'", 'nothing.py'),
    'base is a number': text('_base_ = 5', "x.py: argument of type 'int'"),
    'base is a folder': text("_base_ = 'shapes'", 'x.py: FileNotFoundError: file'),
    'base of a package that is none': text("_base_ = 'nothing::a.py'", 'x.py: ValueError'),
    'same key in two bases': ('x.py', two_bases, 'x.py: Duplicate key'),
    'no scope': text('model = dict()', 'default_scope is None in x.py'),
    'scope of another': text("default_scope = 'mmpose'\nmodel = dict()", "is 'mmpose' in x.py"),
    'scope is a list': text('default_scope = []\nmodel = dict()', 'default_scope is [] in x.py'),
    'no model': text(BASE + 'model = None', 'model'),
    'model without a type': text(BASE + 'model = dict(_delete_=True)', 'x.py'),
    'a value over a dict': text(BASE + "model = 'x'", "model is 'x' in x.py"),
    'a dict over a value': text(BASE + 'data_root = dict(a=1)', "data_root={'a': 1}"),
    'missing': ('x.py', lambda f: None, ABSENT),
    'folder': ('x.py', lambda f: (f / 'x.py').mkdir(), "'x.py'"),
    'pipe': ('x.py', lambda f: os.mkfifo(f / 'x.py'), ABSENT),
    'device': ('x.py', lambda f: (f / 'x.py').symlink_to('/dev/zero'), ABSENT),
    'loop of links': ('x.py', lambda f: (f / 'x.py').symlink_to('x.py'), ABSENT),
    'closed': ('x.py', closed, "Permission denied: 'x.py'"),
    'long name': ('n' * 300 + '.py', lambda f: None, 'nnn'),
    'JSON': text('{"model": ', 'x.json: JSONDecodeError', 'x.json'),
    'JSON of a list': text('[1]', 'x.json: ', 'x.json'),
    'YAML': text('a: [', 'x.yaml: ParserError', 'x.yaml'),
    'YAML with a tag': text('a: !nothing b', 'x.yaml: ConstructorError', 'x.yaml'),
    'YAML of references that double': text(
        'a0: &a0 [x, x]\n' + ''.join(f'a{i + 1}: &a{i + 1} [*a{i}, *a{i}]\n' for i in range(5))
        + 'default_scope: 5\n', 'default_scope is 5 in x.yaml', 'x.yaml'
    ),
    'another type': text('x = 1', 'x.txt', 'x.txt'),
    'a checkpoint': ('run/epoch_2.pth', lambda f: None, 'run/epoch_2.pth'),
}  # fmt: skip

UNREADABLE = ('a', '=3', 'x=[(1,2]')  # by a parser
# values, and the words of the refusal
OPTIONS: dict[str, str] = {
    'a': "not 'a'", '=3': "not '=3'", 'x=[(1,2]': '(1,2', 'model=5': 'model is 5',
    'model=None': 'model', 'model.backbone=5': 'model.backbone is 5',
    'model.backbone=None': 'NoneType', 'model.neck=5': "<class 'int'>",
    'model.backbone.type=Nothing': 'Nothing', 'model.backbone.arch=nothing': "arch is 'nothing'",
    'model.backbone.nothing=3': "'nothing'",
    'model.backbone.out_indices=[0,9]': 'out_indices is (0, 9)',
    'model.backbone.drop_path_rate=2': 'drop_prob is 1.33',
    'model.backbone.frozen_stages=99': 'frozen_stages is 99',
    'model.data_preprocessor.std=0': 'std is 0',
    'model.data_preprocessor.std=[1,0,1]': 'std is [1, 0, 1]',
    'model.data_preprocessor.std=[1,1]': 'std', 'model.data_preprocessor.mean=a': "'str'",
    'model.data_preprocessor.pad_size_divisor=0': 'pad_size_divisor is 0',
    'model.test_cfg.rcnn.nms=5': 'nms is 5',
    'optim_wrapper.optimizer.lr=-1': 'lr is -1', 'optim_wrapper.optimizer.lr=a': "lr is 'a'",
    'optim_wrapper.optimizer.lr=None': 'NoneType', 'optim_wrapper.optimizer.weight_decay=-5': '-5',
    'optim_wrapper.optimizer.type=AdamV': 'AdamV',
    'optim_wrapper.optimizer.betas=5': "'int' object",
    'optim_wrapper.type=Nothing': 'Nothing', 'optim_wrapper=None': 'optim_wrapper',
    'optim_wrapper.clip_grad=a': 'clip_grad',
    'train_dataloader.batch_size=0': 'batch_size is 0',
    'train_dataloader.batch_size=a': "batch_size is 'a'",
    'train_dataloader.batch_size=-3': 'batch_size is -3',
    'train_dataloader.num_workers=-2': 'num_workers is -2',
    'train_dataloader.dataset=5': 'dataset is 5',
    'train_dataloader.dataset.type=CoccoDataset': 'CoccoDataset',
    'train_dataloader.dataset.pipeline=5': 'pipeline is 5',
    'train_dataloader.dataset.pipeline=[]': 'pipeline',
    'train_dataloader.dataset.pipeline.2.type=RandmFlip': 'RandmFlip',
    'train_dataloader.dataset.pipeline.2.prob=7': 'prob',
    'train_dataloader.dataset.ann_file=5': 'ann_file is 5',
    'train_dataloader.dataset.ann_file=nothing': 'nothing',
    'train_dataloader.dataset.data_prefix.img=nothing': 'nothing',
    'train_dataloader.dataset.metainfo.classes=5': 'classes of a dataset are 5',
    'train_dataloader.dataset.metainfo.classes=[a,b]': 'at least one array',
    'train_dataloader.sampler.type=Nothing': 'Nothing',
    'train_dataloader=None': 'no train_dataloader',
    'val_evaluator.metric=miou': 'miou', 'val_evaluator.type=Nothing': 'Nothing',
    'val_evaluator.ann_file=nothing': 'nothing', 'val_dataloader=None': 'val_dataloader',
    'train_cfg.max_epochs=0': 'max_epochs is 0', 'train_cfg.max_epochs=-1': 'max_epochs is -1',
    'train_cfg.max_epochs=a': "max_epochs is 'a'", 'train_cfg=None': 'train_cfg',
    'train_cfg.type=Nothing': 'Nothing', 'param_scheduler.0.type=Nothing': 'Nothing',
    'param_scheduler=5': 'param_scheduler',
    'default_hooks.checkpoint.interval=a': "interval is 'a'",
    'default_hooks=5': 'default_hooks is 5', 'default_hooks.logger.type=Nothing': 'Nothing',
    'custom_hooks=5': 'custom_hooks is 5', 'env_cfg=5': 'env_cfg is 5',
    'data_root=nothing': 'nothing/', 'data_root=/dev/zero': '/dev/zero/', 'data_root=': "'/",
    'load_from=nothing': "'nothing' does not exist", 'load_from=5': 'load_from is 5',
    'randomness.seed=a': "'<U1'", 'randomness=5': 'randomness is 5',
    'log_level=NOTHING': 'NOTHING', 'visualizer.type=Nothing': 'Nothing', 'work_dir=5': 'work_dir',
    'runner_type=Nothing': 'Nothing', 'log_processor.window_size=a': "window_size is 'a'",
    'randomness=None model.type=Nothing': 'Nothing',
}  # fmt: skip
# what the check before a run finds, or the first step would
MISFITS: dict[str, str] = {
    'model.rpn_head.anchor_generator.strides=[4]': 'anchor_generator.strides',
    'model.roi_head.bbox_head.num_classes=2': 'num_classes=2',
    'model.neck.in_channels=[1,2,3,4]': 'in_channels=[1, 2, 3, 4]',
    'model.neck.num_outs=2': 'AssertionError',
    'model.data_preprocessor.mean=[1,2]': '`mean`',
    'model.backbone.out_indices=[0,1]': 'maps of 16, 24 channels',
}

# what the check of data finds
DATA: dict[str, str] = {
    'train_dataloader.dataset=5': 'dataset is 5',
    'train_dataloader.dataset.type=CoccoDataset': 'CoccoDataset',
    'train_dataloader.dataset.ann_file=5': 'ann_file is 5',
    'train_dataloader.dataset.ann_file=nothing': "nothing' does not exist",
    'train_dataloader.dataset.data_prefix.img=nothing': "nothing' does not exist",
    'train_dataloader.dataset.metainfo.classes=[a,b]': 'without a category in the file',
    'val_evaluator.ann_file=nothing': "annotation file 'nothing' of the evaluator",
    'data_root=nothing': "'nothing/", 'data_root=/dev/zero': "'/dev/zero/", 'data_root=': "'/",
}  # fmt: skip

BUILT = ('detector.py', 'run/epoch_2.pth')
MOBILE = ('mobile/mmseg.py', 'mobile/epoch_1.pth')
TRAIN, PRUNE = ('train', 'detector.py'), ('prune', *BUILT, '--out')
TRAIN_SEED = (*TRAIN, '--no-check', '--work-dir', 'w', '--seed')
COMPLEXITY, SUITE = ('complexity', 'SwiftFormer:xs'), ('suite', 'detector.py', '--work-dir', 'w')
SMALL_IMAGE = 'shapes/val2017/000000.png'
ATTENTION = ('analyze', 'attention', 'SwiftFormer:xs', SMALL_IMAGE, '--out-dir', 'o')
PREDICT, EXPORT = ('predict', *BUILT, 'shapes/val2017'), ('export', *BUILT)
BROWSE = ('browse', 'detector.py', '--out-dir', 'o')
# words of the refusal, and the call
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    'no config': ('arguments are required: DATA|CONFIG', 'train'),
    'unknown argument': ('unrecognized arguments: --nothing', *TRAIN, '--nothing'),
    'seed is a text': ("--seed: invalid int value: 'a'", *TRAIN, '--seed', 'a'),
    'seed is negative': ('Seed must be between', *TRAIN_SEED, -5),
    'seed is huge': ('Seed must be between', *TRAIN_SEED, 2**70),
    'launcher': ('--launcher pytorch needs', *TRAIN, '--launcher', 'pytorch'),
    'launcher of slurm': ('--launcher slurm needs', *TRAIN, '--launcher', 'slurm'),
    'amp': ('--amp needs', *TRAIN, '--amp', '--no-check', '--work-dir', 'w'),
    'complexity of nothing': ("'Nothing:s'", 'complexity', 'Nothing:s'),
    'complexity of no variant': ("arch is 'nothing'", 'complexity', 'SwiftFormer:nothing'),
    'complexity of no argument': ("'nothing'", 'complexity', 'SwiftFormer:xs:nothing=3'),
    'complexity of 0 pixels': ('0 x 0', *COMPLEXITY, '--shape', 0, 0),
    'complexity of negative pixels': ('-64 x 64', *COMPLEXITY, '--shape', -64, 64),
    'complexity of giant images': (f'{10**9} x {10**9}', *COMPLEXITY, '--shape', 10**9, 10**9),
    'complexity of negative proposals': (
        'negative dimension -5', 'complexity', 'detector.py', '--proposals', -5),
    'attention of 0 pixels': ('--shape is 0 0', *ATTENTION, '--shape', 0, 0),
    'attention outside': ('--query 9999 -1 is outside', *ATTENTION, '--query', 9999, -1),
    'attention of no layer': ("no layer matches 'nothing'", *ATTENTION, '--layers', 'nothing'),
    'heads of a model without': ('heads', 'analyze', 'heads', *BUILT, '--out-dir', 'o'),
    'prune heads that are not there': ('no heads of Mobile-Attention', *PRUNE, 'o.pth'),
    'prune to more': ('--keep is 7', *PRUNE, 'o.pth', '--keep', 7),
    'prune to nan': ('--keep is nan', *PRUNE, 'o.pth', '--keep', 'nan'),
    'prune by nothing': ("invalid choice: 'nothing'", *PRUNE, 'o.pth', '--method', 'nothing'),
    'prune into the config': ("'detector.py' must end in .pth", *PRUNE, 'detector.py'),
    'browse a negative number': ('--num-images is -3', *BROWSE, '--num-images', -3),
    'browse nothing': ('--num-images is 0', *BROWSE, '--num-images', 0),
    'check a negative number': ('--num-images is -3', 'check', 'detector.py', '--num-images', -3),
    'predict at a score of 7': ('threshold is 7.0', *PREDICT, '--score-thr', 7),
    'predict at no score': ('threshold is nan', *PREDICT, '--score-thr', 'nan'),
    'predict batches of 0': ('batch size is 0', *PREDICT, '--batch', 0),
    'predict on no device': ("device 'nothing'", *PREDICT, '--device', 'nothing'),
    'predict on a device that is not there': ("device 'cuda:99'", *PREDICT, '--device', 'cuda:99'),
    'predict nothing': ("'nothing/*.png' matches no file", *PREDICT[:3], 'nothing/*.png'),
    'export of 0 pixels': ('--shape is (0, 0)', *EXPORT, 'o.onnx', '--shape', 0, 0),
    'export of a negative batch': ('--batch is -1', *EXPORT, 'o.onnx', '--batch', -1),
    'export to an unknown type': ("suffix '.xyz'", *EXPORT, 'o.xyz'),
    'export at opset 3': ('--opset is 3', *EXPORT, 'o.onnx', '--opset', 3),
    'export with an image that is none': (
        'cannot be read: detector.py', *EXPORT, 'o.onnx', '--image', 'detector.py'),
    'suite of nothing': ("no config matches 'nothing*.py'", 'suite', 'nothing*.py', *SUITE[2:]),
    'suite in 0 processes': ('--nproc-per-node is 0', *SUITE, '--nproc-per-node', 0),
    'curves of nothing': ('no scalars in nothing/', 'analyze', 'curves', 'nothing'),
}  # fmt: skip
PARSED = ('no config', 'unknown argument', 'seed is a text', 'prune by nothing')  # by a parser
