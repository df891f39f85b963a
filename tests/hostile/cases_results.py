"""Files that runs left for other commands: predictions, results, logs, tables."""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile.cases_pickles import PREDICTIONS
from tests.hostile.commands import Door, command, controls, in_each, in_turn, needs
from tests.hostile.damage import damaged, mutate_json
from tests.hostile.judge import Case
from tests.hostile.world import World, dice

GROUP = 'results'
READY = ('detector.py', 'shapes', 'run', 'found.pkl', 'found.json', 'found.images.json')
DOORS = {how: PREDICTIONS[how] for how in ('errors', 'per-class')}
OTHERS = {
    'curves': Door(lambda _: command('analyze', 'curves', 'run'), makes=('run/curves.png',)),
    'suite': Door(
        lambda _: command('suite', 'detector.py', '--work-dir', 'suite'),
        makes=('suite/suite.json',),
    ),
}


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY)
    yield from controls(GROUP, {**DOORS, **OTHERS}, 'found.pkl', world, *READY[:3], *READY[4:])
    yield Case(GROUP, 'errors', 'bad', DOORS['errors'].call('none.pkl'), ready,
               says=("'none.pkl' does not exist",), is_control=True)  # fmt: skip
    for how, door in DOORS.items():
        yield Case(GROUP, how, 'good found.json', door.call('found.json'), ready, 'work',
                   makes=door.makes)  # fmt: skip
        for what, (name, make, word) in FILES.items():
            yield Case(GROUP, how, what, door.call(name), in_turn(ready, make), says=(word,),
                       expect='either' if what in TOLERATED else 'reject')  # fmt: skip
    for what, (content, word) in LOGS.items():
        yield Case(GROUP, 'curves', f'log: {what}', OTHERS['curves'].call(''),
                   in_turn(ready, partial(log, content)), 'reject' if word else 'work',
                   says=(word,) if word else (), makes=('run/curves.png',),
                   writes=('run/curves.png',))  # fmt: skip
    for what, content in TABLES.items():

        def table(folder: Path, content: bytes = content) -> None:
            (folder / 'suite').mkdir()
            (folder / 'suite/suite.json').write_bytes(content)

        yield Case(GROUP, 'suite', f'table: {what}', OTHERS['suite'].call(''),
                   in_turn(ready, table), says=('suite/suite.json is not a results table',),
                   writes=('suite',))  # fmt: skip
    for number in range(6 * more):

        def change(folder: Path, number: int = number) -> None:
            rolled = dice('results', seed, number)
            content = json.loads((folder / 'found.json').read_text())
            mutate_json(content, rolled)
            (folder / 'found.json').write_text(json.dumps(content))
            path = folder / 'found.pkl'
            path.write_bytes(damaged(path.read_bytes(), rolled))

        name, how = in_each(('found.json', 'found.pkl'), number), in_each(DOORS, number // 2)
        yield Case(GROUP, how, f'random {number}', DOORS[how].call(name), in_turn(ready, change),
                   'either', says=(name,))  # fmt: skip


def log(content: bytes, folder: Path) -> None:
    for path in (folder / 'run').rglob('scalars.json'):
        path.write_bytes(content)


def results(content: Any, word: str = 'found.json') -> tuple[str, Callable[[Path], Any], str]:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return 'found.json', lambda folder: (folder / 'found.json').write_bytes(text), word


def detection(**values: Any) -> dict[str, Any]:
    return dict(dict(image_id=0, category_id=1, bbox=[1, 1, 9, 9], score=0.5), **values)


FILES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    'another type': ('found.txt', lambda f: (f / 'found.txt').write_text('x'), 'found.txt'),
    'a folder': ('run', lambda f: None, 'run'),
    'a pipe': ('x.json', lambda f: os.mkfifo(f / 'x.json'), "'x.json' is not a regular file"),
    'a pipe of predictions': (
        'x.pkl', lambda f: os.mkfifo(f / 'x.pkl'), "'x.pkl' is not a regular file"),
    'closed': ('found.json', lambda f: (f / 'found.json').chmod(0), "'found.json' cannot be read"),
    'no JSON': results(b'[{'),
    'deep': results(b'[' * 200_000),
    'an object': results({}),
    'nothing': results([]),
    'no score': results([{'image_id': 0, 'category_id': 1, 'bbox': [1, 1, 9, 9]}]),
    'score is a text': results([detection(score='x')]),
    'score is NaN': results([detection(score=float('nan'))]),
    'score is huge': results([detection(score=10**400)]),
    'image is a list': results([detection(image_id=[0])]),
    'image that is none': results([detection(image_id=999)]),
    'category that is none': results([detection(category_id=999)]),
    'box of three': results([detection(bbox=[1, 2, 3])]),
    'box of texts': results([detection(bbox=['a'] * 4)]),
    'box of 1e308': results([detection(bbox=[1e308] * 4)]),
    'no box': results([{'image_id': 0, 'category_id': 1, 'score': 0.5}], 'bbox'),
    'mask of a huge size': results(
        [detection(segmentation=dict(size=[10**6, 10**6], counts='0'))]),
    'mask of odd code': results([detection(segmentation=dict(size=[64, 64], counts='\x7f' * 99))]),
    'mask of a polygon': results([detection(segmentation=[[0, 0, 1e9, 0, 9, 1e9]])]),
}  # fmt: skip
TOLERATED = {
    'nothing', 'no box', 'box of 1e308', 'mask of a huge size', 'mask of odd code',
    'mask of a polygon', 'score is huge',
}  # fmt: skip
NO_SCALARS = 'no scalars in run/'
# words of the refusal; none where there is a line that can be drawn
LOGS: dict[str, tuple[bytes, str]] = {
    'no JSON': (b'loss 1.0\n', NO_SCALARS),
    'deep': (b'[' * 200_000 + b'\n', NO_SCALARS),
    'no text': (b'\xff\xfe\n', NO_SCALARS),
    'NaN': (
        b'{"loss": NaN, "lr": 0.1, "step": 1}\n{"loss": Infinity, "lr": 0.1, "step": 2}\n', ''),
    'texts': (b'{"loss": "a", "lr": [], "step": {}}\n', NO_SCALARS),
    'huge': (b'{"loss": 1e400, "lr": 1e308, "step": 1' + b'0' * 30 + b'}\n', NO_SCALARS),
}  # fmt: skip
ROW = dict(config='detector.py', status='done')
TABLES: dict[str, bytes] = {
    'empty': b'',
    'cut': b'[{"config": ',
    'deep': b'[' * 200_000,
    'a number': b'5',
    'rows are numbers': b'{"detector": 5}',
    'odd row': json.dumps({'detector': {**ROW, 'paper': 5, 'ours': [], 'nothing': 3}}).encode(),
    'no text': b'\xff\xfe',
}
