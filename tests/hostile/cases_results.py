"""Files that runs left for other commands: predictions, results, logs, tables."""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile.commands import command, needs
from tests.hostile.damage import damaged, mutate_json
from tests.hostile.judge import Case
from tests.hostile.pickles import BODIES, FORMATS, write_others
from tests.hostile.world import World, dice

VAL = 'shapes/annotations/instances_val2017.json'
READY = ('detector.py', 'shapes', 'run', 'found.pkl', 'found.json', 'found.images.json')
USERS: dict[str, Callable[[str], Callable[[Path], None]]] = {
    'errors': lambda name: command('errors', name, 'errors', '--ann', VAL),
    'per-class': lambda name: command('per-class', 'detector.py', name, '--out-dir', 'classes'),
}


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY)

    def prepare(make: Callable[[Path], Any], folder: Path) -> None:
        ready(folder)
        make(folder)

    for how, job in USERS.items():
        for name in ('found.pkl', 'found.json'):
            yield Case('results', f'good {name}, {how}', job(name), ready, expect='work')
    for number, (what, (name, make)) in enumerate(FILES.items()):
        for how in list(USERS) if more > 1 else [list(USERS)[number % 2]]:
            yield Case('results', f'{what}, {how}', USERS[how](name), partial(prepare, make),
                       expect='either' if what in TOLERATED else 'reject')  # fmt: skip
    for number, (what, body) in enumerate(BODIES.items()):
        if more > 1 or number % 8 == 0:
            make = partial(payload, body)
            yield Case('results', f'{what} in predictions', USERS['per-class']('found.pkl'),
                       partial(prepare, make))  # fmt: skip
    for what, content in LOGS.items():
        make = partial(log, content)
        yield Case('results', f'log: {what}', command('curves', 'run'),
                   partial(prepare, make), expect='either', writes=('run/curves.png',))  # fmt: skip
    for what, content in TABLES.items():

        def table(folder: Path, content: bytes = content) -> None:
            (folder / 'suite').mkdir()
            (folder / 'suite/suite.json').write_bytes(content)

        yield Case('results', f'suite: {what}',
                   command('suite', 'detector.py', '--work-dir', 'suite', '--test-only'),
                   partial(prepare, table), codes=(1, 2), writes=('suite',))  # fmt: skip
    for number in range(6 * more):

        def change(folder: Path, number: int = number) -> None:
            rolled = dice('results', seed, number)
            content = json.loads((folder / 'found.json').read_text())
            mutate_json(content, rolled)
            (folder / 'found.json').write_text(json.dumps(content))
            path = folder / 'found.pkl'
            path.write_bytes(damaged(path.read_bytes(), rolled))

        name = ('found.json', 'found.pkl')[number % 2]
        yield Case('results', f'random {number}', list(USERS.values())[number // 2 % 2](name),
                   partial(prepare, change), expect='either')  # fmt: skip


def payload(body: bytes, folder: Path) -> None:
    write_others(folder)
    (folder / 'found.pkl').write_bytes(FORMATS['pickle'](body))


def log(content: bytes, folder: Path) -> None:
    for path in (folder / 'run').rglob('scalars.json'):
        path.write_bytes(content)


def results(content: Any) -> tuple[str, Callable[[Path], Any]]:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return 'found.json', lambda folder: (folder / 'found.json').write_bytes(text)


def detection(**values: Any) -> dict[str, Any]:
    return dict(dict(image_id=0, category_id=1, bbox=[1, 1, 9, 9], score=0.5), **values)


FILES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    'missing': ('nothing.pkl', lambda f: None),
    'another type': ('found.txt', lambda f: (f / 'found.txt').write_text('x')),
    'a folder': ('run', lambda f: None),
    'a pipe': ('x.json', lambda f: os.mkfifo(f / 'x.json')),
    'a pipe of predictions': ('x.pkl', lambda f: os.mkfifo(f / 'x.pkl')),
    'a device': ('x.json', lambda f: (f / 'x.json').symlink_to('/dev/zero')),
    'a device of predictions': ('x.pkl', lambda f: (f / 'x.pkl').symlink_to('/dev/zero')),
    'closed': ('found.json', lambda f: (f / 'found.json').chmod(0)),
    'no JSON': results(b'[{'),
    'deep': results(b'[' * 200_000),
    'a number': results(5),
    'an object': results({}),
    'a list of numbers': results([1, 2]),
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
    'no box': results([{'image_id': 0, 'category_id': 1, 'score': 0.5}]),
    'mask of a huge size': results(
        [detection(segmentation=dict(size=[10**6, 10**6], counts='0'))]),
    'mask of odd code': results([detection(segmentation=dict(size=[64, 64], counts='\x7f' * 99))]),
    'mask of a polygon': results([detection(segmentation=[[0, 0, 1e9, 0, 9, 1e9]])]),
}  # fmt: skip
TOLERATED = {
    'nothing', 'no box', 'box of 1e308', 'mask of a huge size', 'mask of odd code',
    'mask of a polygon', 'score is huge',
}  # fmt: skip
LOGS: dict[str, bytes] = {
    'empty': b'',
    'cut': b'{"loss": 1.0, "lr": 0.1, "step": 1}\n{"loss": 0.',
    'no JSON': b'loss 1.0\n',
    'deep': b'[' * 200_000 + b'\n',
    'numbers': b'1\n2\n',
    'no text': b'\xff\xfe\n',
    'NaN': b'{"loss": NaN, "lr": 0.1, "step": 1}\n{"loss": Infinity, "lr": 0.1, "step": 2}\n',
    'texts': b'{"loss": "a", "lr": [], "step": {}}\n',
    'huge': b'{"loss": 1e400, "lr": 1e308, "step": 1' + b'0' * 30 + b'}\n',
}
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
