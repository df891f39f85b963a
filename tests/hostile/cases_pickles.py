"""Pickles in checkpoints and predictions: payloads, and programs that break a reader.

This group runs with every change. All doors have one reader, so each pickle is given to a cheap
one, and a few to all.
"""

import zipfile
from collections.abc import Iterator

from tests.hostile.commands import (
    LOADERS,
    READ_PICKLE,
    READERS,
    Door,
    command,
    controls,
    good_checkpoint,
    in_each,
    needs,
    put,
    read_plain,
)  # fmt: skip
from tests.hostile.judge import Case
from tests.hostile.pickles import BODIES, FORMATS, HARMLESS, program, text, write_others, zipped
from tests.hostile.world import VAL, World, dice

GROUP = 'pickles'
TO_ALL = ('os.system',)  # commands take long
CHEAP = (*READERS, 'read_pickle')
MODEL = ('detector.py', 'shapes', 'images')  # what commands that build a model need
DOORS = {how: door for how, door in LOADERS.items() if how != 'export'}  # it takes long
PREDICTIONS = {
    'read_pickle': READ_PICKLE,
    'errors': Door(
        lambda name: command(
            'analyze', 'errors', name, '--out-dir', 'errors', '--ann', f'shapes/{VAL}'
        ),
        makes=('errors/bbox/errors.md',),
    ),
    'per-class': Door(
        lambda name: command('analyze', 'per-class', 'detector.py', name, '--out-dir', 'classes'),
        makes=('classes/per_class.md',),
    ),
}


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """The same ones each time."""
    # readers need nothing else, and copies take most of the time of a case
    ready = {how: () if how in CHEAP else (needs(world, *MODEL),) for how in (*DOORS, *PREDICTIONS)}
    for how, door in DOORS.items():
        yield from controls(GROUP, {how: door}, good_checkpoint(how), world, *MODEL)
    yield from controls(GROUP, PREDICTIONS, 'found.pkl', world, *MODEL)
    bad = FORMATS['zip'](BODIES['os.system'])
    yield Case(GROUP, 'open_checkpoint', 'bad', READERS['open_checkpoint'].call('model.pth'),
               put('model.pth', bad), says=('model.pth is rejected', 'os.system'),
               is_control=True)  # fmt: skip
    for number, (what, body) in enumerate(BODIES.items()):
        for place, (kind, form) in enumerate(FORMATS.items()):
            chosen = {in_each(READERS, number + place)}
            chosen |= set(DOORS) if what in TO_ALL and kind == 'zip' else set()
            for how in sorted(chosen):
                is_read = how == 'mmengine' and what in HARMLESS
                yield Case(
                    GROUP, how, f'{what}, {kind}', DOORS[how].call('model.pth'),
                    put('model.pth', form(body), write_others, *ready[how]),
                    expect='either' if is_read else 'reject', says=('model.pth',),
                )  # fmt: skip
        for how in PREDICTIONS if what in TO_ALL else ['read_pickle']:
            yield Case(
                GROUP, how, what, PREDICTIONS[how].call('found.pkl'),
                put('found.pkl', FORMATS['pickle'](body), write_others, *ready[how]),
                expect='either' if what in HARMLESS else 'reject', says=('found.pkl',),
            )  # fmt: skip
    yield from random_cases(world, seed, more)


def random_cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """Pickles of random opcodes, and real ones with some changes."""
    with zipfile.ZipFile(world / 'run/epoch_1.pth') as archive:
        (name,) = (name for name in archive.namelist() if name.endswith('data.pkl'))
        checkpoint = archive.read(name)[2:-1]
    found = (world / 'found.pkl').read_bytes()[2:-1]
    numbers = {str(index): bytes(32) for index in range(2)}
    doors = {'checkpoint': ('x.pth', True, checkpoint), 'predictions': ('x.pkl', False, found)}
    for how, (name, is_checkpoint, source) in doors.items():
        how, job = f'read_plain, {how}', read_plain(name, is_checkpoint)
        good = FORMATS['zip' if is_checkpoint else 'pickle'](b'}' + text('a') + b'Ns')
        yield Case(GROUP, how, 'good', job, put(name, good), 'work', ('plain values',),
                   is_control=True)  # fmt: skip
        for number in range(20 * more):
            chance = dice('pickle', how, seed, number)
            form = chance.choice(list(FORMATS)) if is_checkpoint else 'pickle'
            body = program(source, chance)
            content = zipped(body, **numbers) if form == 'zip' else FORMATS[form](body)
            yield Case(GROUP, how, f'random {number}, {form}', job, put(name, content), 'either',
                       says=(name,))  # fmt: skip
