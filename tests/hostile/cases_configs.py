"""Configs and arguments: odd files, random damage, values that cannot work."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.config.test_load import FILES
from tests.hostile.cases_outputs import OUTPUTS, with_output
from tests.hostile.cases_outputs import READY as OF_OUTPUTS
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
# of those that test_load.py gives to one command: the others read configs in the same way
ATTACKS = ('no Python', 'exit', 'scope is a list', 'no model', 'folder', 'pipe', 'device', 'closed')
WITHOUT_MODEL = ('check the data', 'per-class')
READY = ('detector.py', 'shapes', 'run/epoch_2.pth', 'found.pkl')


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY)
    yield from controls('configs: files', DOORS, 'detector.py', world, *READY)
    yield Case('configs: files', 'complexity', 'bad', command('complexity', 'nothing.py'), ready,
               says=("'nothing.py' does not exist",), is_control=True)  # fmt: skip
    for what in ATTACKS:
        name, make, word = FILES[what]
        for how, door in DOORS.items():
            is_read = how in WITHOUT_MODEL and what == 'no model'
            yield Case('configs: files', how, what, door.call(name), in_turn(ready, make),
                       expect='work' if is_read else 'reject', codes=(1, 2),
                       says=door.says if is_read else (word,))  # fmt: skip
    yield from argument_cases(needs(world, *OF_OUTPUTS, 'video.avi'))
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


def argument_cases(ready: Callable[[Path], Any]) -> Iterator[Case]:
    """A call of every command is good without the argument that is attacked."""
    group = 'configs: arguments'
    for how in COMMANDS:
        arguments, made = OUTPUTS[how]
        yield Case(group, how, 'good', with_output(arguments, 'out'), ready, 'work',
                   makes=tuple(f'out/{name}' for name in made), is_control=True)  # fmt: skip
    yield Case(group, 'check', 'good', command('check', 'detector.py', '--num-images', 1), ready,
               'work', ('nothing is broken',), is_control=True)  # fmt: skip
    yield Case(group, 'train', 'bad', command(*TRAIN, '--x'), ready,
               says=('unrecognized arguments: --x',), is_control=True, by_parser=True)  # fmt: skip
    yield Case(group, 'train', 'empty', command(*TRAIN, '--work-dir', ''), ready,
               says=('an argument is empty',), by_parser=True)  # fmt: skip
    for what, (word, *arguments) in ARGUMENTS.items():
        door = arguments[arguments[0] == 'analyze']
        yield Case(group, door, what, command(*arguments), ready, says=(word,))


BUILT = ('detector.py', 'run/epoch_2.pth')
COMMANDS = ('train', 'complexity', 'attention', 'browse', 'predict', 'export', 'curves', 'heads',
            'suite')  # fmt: skip
TRAIN = ('train', 'detector.py')
TRAIN_SEED = (*TRAIN, '--no-check', '--work-dir', 'w', '--seed')
COMPLEXITY, SUITE = ('complexity', 'SwiftFormer:xs'), ('suite', 'detector.py', '--work-dir', 'w')
SMALL_IMAGE = 'shapes/val2017/000000.png'
ATTENTION = ('analyze', 'attention', 'SwiftFormer:xs', SMALL_IMAGE, '--out-dir', 'o')
PREDICT, EXPORT = ('predict', *BUILT, 'shapes/val2017'), ('export', *BUILT)
BROWSE = ('browse', 'detector.py', '--out-dir', 'o')
# words of the refusal, and the call
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    'seed is negative': ('--seed is -5', *TRAIN_SEED, -5),
    'seed is huge': (f'--seed is {2**70}', *TRAIN_SEED, 2**70),
    'no learning rate': ('--lr is nan', *TRAIN, '--lr', 'nan'),
    'workers are negative': ('--workers is -1', *TRAIN, '--workers', -1),
    'a run over another': ('run has a run already', *TRAIN, '--work-dir', 'run'),
    'launcher': ('--launcher pytorch needs', *TRAIN, '--launcher', 'pytorch'),
    'launcher of slurm': ('--launcher slurm needs', *TRAIN, '--launcher', 'slurm'),
    'complexity of no variant': ("arch is 'nothing'", 'complexity', 'SwiftFormer:nothing'),
    'complexity of no argument': ("'nothing'", 'complexity', 'SwiftFormer:xs:nothing=3'),
    'complexity of 0 pixels': ('--shape is 0', *COMPLEXITY, '--shape', 0, 0),
    'complexity of negative pixels': ('--shape is -64', *COMPLEXITY, '--shape', -64, 64),
    'complexity of giant images': (f'{10**9} x {10**9}', *COMPLEXITY, '--shape', 10**9, 10**9),
    'complexity of negative proposals': (
        '--proposals is -5', 'complexity', 'detector.py', '--proposals', -5),
    'attention of no layer': ("no layer matches 'nothing'", *ATTENTION, '--layers', 'nothing'),
    'heads of a model without': ('heads', 'analyze', 'heads', *BUILT, '--out-dir', 'o'),
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
