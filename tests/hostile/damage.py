"""Damage to bytes, to the lists of archives and to JSON, and images that are programs."""

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.judge import CANARY, PROGRAMS
from tests.hostile.world import dice
from tests.utils.odd_images import EPS

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, float('nan'), float('-inf'), 2**63, 10**400, '', 'x', '../../x',
    '\x00', '\x1b[2J', '\ud800', [], [[]], {}, [None], {'a': 1}, 'a' * 5000, -1e9, 0.5,
)  # fmt: skip


def damaged(content: bytes, dice: random.Random) -> bytes:
    """``content`` with some flipped bits, or with noise, a copy or nothing in place of a part."""
    changed, size = bytearray(content), len(content)
    while changed == content:
        if dice.random() < 0.2:
            for _ in range(dice.choice((1, 1, 2, 8))):
                changed[dice.randrange(size)] ^= 1 << dice.randrange(8)
        else:
            start, source = dice.choice((0, dice.randrange(size))), dice.randrange(size)
            end = start + dice.choice((0, 8, 16, size // 10, size))
            noise, copy = dice.randbytes(dice.randint(1, 64)), content[source : source + 10_000]
            changed[start:end] = dice.choice((noise, copy, b''))
    return bytes(changed)


def damaged_near(content: bytes, place: int, width: int, dice: random.Random) -> bytes:
    """Damage within ``width`` bytes from ``place`` on: where the structure of a file is."""
    part = content[place : place + width]
    return content[:place] + damaged(part, dice) + content[place + width :]


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """The keys that lead to every value inside of a JSON value."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


def mutate_json(content: Any, dice: random.Random) -> str:
    """Change one to three values inside of ``content``, in place; say what."""
    told = []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        candidates = places(content)
        if not candidates:
            break
        *above, last = dice.choice(candidates)
        holder = content
        for key in above:
            holder = holder[key]
        kind = dice.choice(('replace', 'replace', 'remove', 'double'))
        where = '.'.join(map(str, (*above, last)))
        if kind == 'replace':
            value = dice.choice(ODD)
            holder[last] = value
            told.append(f'{where}={value!r:.20}')
        elif kind == 'remove':
            del holder[last]
            told.append(f'no {where}')
        elif isinstance(holder, list):
            holder.insert(last, holder[last])
            told.append(f'{where} twice')
    return ', '.join(told) or 'nothing'


def relisted(content: bytes, offset: int, kind: str, *values: int) -> bytes:
    """The archive with other numbers at this offset of every entry in its list."""
    changed = bytearray(content)
    start = 0
    while (start := changed.find(b'PK\x01\x02', start)) >= 0:
        struct.pack_into(f'<{kind}', changed, start + offset, *values)
        start += 4
    return bytes(changed)


def postscript(name: str) -> Callable[[Path], Any]:
    """A program for Ghostscript, named as an image."""
    return lambda folder: (folder / name).write_bytes(EPS)


def install_ghostscript(folder: Path) -> None:
    """Whoever runs it creates the canary."""
    (folder / PROGRAMS).mkdir(exist_ok=True)
    (folder / PROGRAMS / 'gs').write_text(f'#!/bin/sh\ntouch {CANARY}\n')
    (folder / PROGRAMS / 'gs').chmod(0o755)


def spoil(name: str, *key: object) -> Callable[[Path], None]:
    """Damage a file, in the way that belongs to a key."""

    def prepare(folder: Path) -> None:
        path = folder / name
        path.write_bytes(damaged(path.read_bytes(), dice(*key)))

    return prepare
