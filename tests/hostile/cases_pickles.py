"""Pickles in checkpoints and predictions: payloads, and programs that break a reader.

This group runs with every change. All doors have one reader, so each pickle is given to a cheap
one, and a few to all.
"""

from collections.abc import Iterator

from tests.hostile.commands import (
    LOADERS,
    READERS,
    Door,
    command,
    controls,
    good_checkpoint,
    in_each,
    needs,
    put,
    read_predictions,
)  # fmt: skip
from tests.hostile.judge import Case
from tests.hostile.pickles import BODIES, FORMATS, HARMLESS, write_others
from tests.hostile.world import World

GROUP = 'pickles'
TO_ALL = ('os.system', 'getattr of a history', 'state of a copied dtype')
MODEL = ('detector.py', 'shapes', 'images')  # what commands that build a model need
ANNOTATIONS = 'shapes/annotations/instances_val2017.json'
DOORS = {how: door for how, door in LOADERS.items() if how != 'export'}  # it takes long
PREDICTIONS = {
    'read_pickle': Door(read_predictions, says=('is loaded',)),
    'errors': Door(
        lambda name: command('errors', name, 'errors', '--ann', ANNOTATIONS),
        makes=('errors/bbox/errors.md',),
    ),
    'per-class': Door(
        lambda name: command('per-class', 'detector.py', name, '--out-dir', 'classes'),
        makes=('classes/per_class.md',),
    ),
}


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """The same ones each time."""
    ready = needs(world, *MODEL)
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
                    put('model.pth', form(body), write_others, ready),
                    expect='either' if is_read else 'reject', says=('model.pth',),
                )  # fmt: skip
        for how in PREDICTIONS if what in TO_ALL else ['read_pickle']:
            yield Case(
                GROUP, how, what, PREDICTIONS[how].call('found.pkl'),
                put('found.pkl', FORMATS['pickle'](body), write_others, ready),
                expect='either' if what in HARMLESS else 'reject', says=('found.pkl',),
            )  # fmt: skip
