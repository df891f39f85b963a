"""Metadata of exported files: entries of wrong types, sizes and ranges, and odd names."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile.cases_models import READY, USERS, edited
from tests.hostile.commands import command, needs
from tests.hostile.judge import Case
from tests.hostile.world import METADATA, World, dice

HUGE = '9' * 400  # an integer beyond floats
LONG = '9' * 6000  # beyond what Python converts


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY)

    def prepare(make: Callable[[Path], Any], folder: Path) -> None:
        ready(folder)
        make(folder / 'model.onnx')

    for number, (what, make) in enumerate(BAD.items()):
        for place, (how, job) in enumerate(CALLED.items()):
            if more > 1 or number % len(CALLED) == place:
                yield Case('metadata', f'{what}, {how}', job, partial(prepare, make),
                           expect='either' if is_tolerated(what, how) else 'reject')  # fmt: skip
    for what, make in GOOD.items():
        yield Case('metadata', f'{what}, predict', CALLED['predict'], partial(prepare, make),
                   expect='work')  # fmt: skip
    for number in range(8 * more):
        key, text = random_entry(seed, number)
        yield Case('metadata', f'random {number}', CALLED['predict'],
                   partial(prepare, described(**{key: text})), expect='either')  # fmt: skip


def random_entry(seed: int, number: int) -> tuple[str, str]:
    """An entry of the metadata, and a JSON value for it."""
    chance = dice('metadata', seed, number)
    key = chance.choice(list(METADATA))
    atoms = [None, True, -1, 0, 0.5, 10**30, 'RGB', '\ud800', 'x' * 999, [], {}, float('nan')]
    value: Any = chance.choice(atoms)
    for _ in range(chance.randrange(4)):
        inner = [value, *chance.sample(atoms, 2)]
        value = chance.choice([inner, {'scale': value, 'pad': inner[1]}, [inner] * 3])
    return key, json.dumps(value)


CALLED: dict[str, Callable[[Path], None]] = {
    **USERS,
    'predict': command('predict', 'model.onnx', 'images', '--out', 'maps', '--out-dir', 'pictures'),
}


def described(**values: str | None) -> Callable[[Path], None]:
    """The model with other metadata; None takes an entry out."""

    def make(path: Path) -> None:
        import onnx

        model = onnx.load(path)
        told = {**METADATA, **values}
        del model.metadata_props[:]
        onnx.helper.set_model_props(model, {k: v for k, v in told.items() if v is not None})
        onnx.save(model, path)

    return make


def resized(**values: Any) -> Callable[[Path], None]:
    return described(resize=json.dumps({**json.loads(METADATA['resize']), **values}))


def named(name: str) -> Callable[[Path], None]:
    """The model with this name for all of its classes."""
    return described(classes=json.dumps([name] * 4))


BAD: dict[str, Callable[[Path], Any]] = {
    'no metadata': edited(lambda m: m.ClearField('metadata_props')),
    'features': described(task='features'),
    'no resize': described(resize=None),
    'resize is no JSON': described(resize='{'),
    'resize is deep': described(resize='[' * 100_000),
    'resize is a list': described(resize='[]'),
    'scale is a text': resized(scale='x'),
    'scale is zero': resized(scale=[0, 0]),
    'scale is negative': resized(scale=[-5, 5]),
    'scale is huge': resized(scale=[10**9, 10**9]),
    'scale is broken': resized(scale=[1.5, 2]),
    'divisor is zero': resized(divisor=0),
    'divisor is huge': resized(divisor=10**9),
    'rounding is odd': resized(rounding='sideways'),
    'interpolation is odd': resized(interpolation='nothing'),
    'backend is odd': resized(backend='nothing'),
    'pad is huge': resized(pad=[10**9, 10**9]),
    'pad value is a text': resized(pad=[64, 64], pad_value='x'),
    'keep ratio is a text': resized(keep_ratio='x'),
    'classes are a number': described(classes='5'),
    'classes are no JSON': described(classes='x'),
    'classes are numbers': described(classes='[1, 2]'),
    'palette is odd': described(palette='[[1, 2]]'),
    'palette is out of range': described(palette='[[1, 2, 999]]'),
    'palette is short': described(palette='[[1, 2, 3]]'),
    'mean is a text': described(mean='"x"'),
    'mean is NaN': described(mean='[NaN, 0, 0]'),
    'mask threshold is a text': described(mask_threshold='x'),
    'a lone surrogate': named('a\ud800b'),
    'a name of control characters': named('a\0\7\x1b[2J'),
    'a name of two lines': named('a\nb'),
    'an empty name': named(''),
    'a name of a megabyte': named('x' * 2**20),
    '200 MB of classes': lambda p: described(classes=json.dumps(['x' * 100] * 2_000_000))(p),
    '200 MB of digits': lambda p: described(mask_threshold='9' * 200_000_000)(p),
    'scale is beyond floats': described(resize=f'{{"scale": [{HUGE}, 64]}}'),
    'scale is beyond integers': described(resize=f'{{"scale": [{LONG}, 64]}}'),
    'pad value is beyond floats': described(resize=f'{{"pad": [64, 64], "pad_value": {HUGE}}}'),
    'pad value is infinite': described(resize='{"pad": [64, 64], "pad_value": 1e999}'),
    'mean is beyond floats': described(mean=f'[{HUGE}, 0, 0]'),
    'palette is beyond floats': described(palette=f'[[{HUGE}, 0, 0]]'),
    'mask threshold is beyond floats': described(mask_threshold=HUGE),
    'mask threshold is NaN': described(mask_threshold='NaN'),
    'offset is huge': described(label_offset=HUGE),
    'category ids are few': described(category_ids='[1]'),
    'category ids are texts': described(category_ids='["a", "b", "c", "d"]'),
    'task is a text': described(task='dance'),
    'colors are odd': described(network_colours='CMYK'),
    'text of escape sequences': described(classes='["\\u001b[2J"]', resize='"\x1b[2J"'),
}  # fmt: skip
GOOD: dict[str, Callable[[Path], Any]] = {
    'an entry that nobody knows': described(anything='['),
    '200 MB that nobody reads': lambda p: described(anything='x' * 200_000_000)(p),
    'a name in Chinese': named('\u5206\u5272'),
    'a name from right to left': named('\u202eabc'),
    'no classes': described(classes=None),
    'no mean': described(mean=None),
    'no palette': described(palette=None),
}
# what quantize can do without
TOLERATED = {'features', 'no resize', 'no metadata'}


def is_tolerated(what: str, how: str) -> bool:
    return what == 'palette is short' or (how == 'quantize' and what in TOLERATED)
