"""Damage to bytes, to the lists of archives and to JSON, and images that are programs."""

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.judge import CANARY, PROGRAMS
from tests.utils.odd_images import EPS

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, float('nan'), float('-inf'), 2**63, 10**400, '', 'x', '../../x',
    '\x00', '\x1b[2J', '\ud800', [], [[]], {}, [None], {'a': 1}, 'a' * 5000, -1e9, 0.5,
)  # fmt: skip


def flip(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 2, 8))):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def cut(content: bytes, dice: random.Random) -> bytes:
    return content[: dice.randrange(len(content))]


def drop(content: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(content))
    return content[:start] + content[start + dice.randint(1, max(1, len(content) // 10)) :]


def repeat(content: bytes, dice: random.Random) -> bytes:
    start, end = sorted(dice.randrange(len(content)) for _ in range(2))
    return content[:end] + content[start : start + 10_000] + content[end:]


def noise(content: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(content))
    return content[:start] + dice.randbytes(dice.randint(1, 64)) + content[start + 8 :]


def swap_start(content: bytes, dice: random.Random) -> bytes:
    return dice.randbytes(dice.randint(1, 16)) + content[16:]


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip, cut, drop, repeat, noise, swap_start,
)  # fmt: skip


def damaged(content: bytes, dice: random.Random) -> bytes:
    """``content`` with one kind of damage, other than it was."""
    while (changed := dice.choice(DAMAGES)(content, dice)) == content:
        pass
    return changed


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
