"""Metadata of exported files: what is absent, huge or odd, and random values.

The types and ranges of all entries are in tests/deploy/runtime/test_predictor.py.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.hostile.cases_models import DOORS as MODEL_DOORS
from tests.hostile.cases_models import at_model, edited
from tests.hostile.commands import Door, command, controls, in_turn, needs
from tests.hostile.judge import Case
from tests.hostile.world import METADATA, World, dice

GROUP, READY = 'metadata', ('model.onnx', 'images')
HUGE = '9' * 400  # an integer beyond floats
LONG = '9' * 6000  # beyond what Python converts
DOORS = {
    **MODEL_DOORS,
    'predict': Door(
        lambda _: command('predict', 'model.onnx', 'images', '--out', 'maps', '--out-dir', 'pics'),
        makes=('maps/a.png', 'pics/a.jpg'),
    ),
}


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY)
    yield from controls(GROUP, DOORS, 'model.onnx', world, 'images')
    bad = in_turn(ready, at_model(described(network_colors='CMYK')))
    yield Case(GROUP, 'predict', 'bad', DOORS['predict'].call('model.onnx'), bad,
               says=("network_colors is 'CMYK'",), is_control=True)  # fmt: skip
    for what, (make, word) in BAD.items():
        for how, door in DOORS.items():
            other = BY_QUANTIZE.get(what) if how == 'quantize' else None
            yield Case(GROUP, how, what, door.call('model.onnx'), in_turn(ready, at_model(make)),
                       expect='either' if other else 'reject', says=(other or word,))  # fmt: skip
    for what, make in GOOD.items():
        yield Case(GROUP, 'predict', what, DOORS['predict'].call('model.onnx'),
                   in_turn(ready, at_model(make)), 'work', makes=('maps/a.png',))  # fmt: skip
    for number in range(8 * more):
        key, text = random_entry(seed, number)
        yield Case(GROUP, 'predict', f'random {number}', DOORS['predict'].call('model.onnx'),
                   in_turn(ready, at_model(described(**{key: text}))), 'either',
                   says=(key.replace('colours', 'colors'),))  # fmt: skip


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


def described(**values: str | None) -> Callable[[Path], None]:
    """The model with other metadata; None takes an entry out."""

    def describe(model: Any) -> None:
        from onnx.helper import set_model_props

        del model.metadata_props[:]
        told = {**METADATA, **values}
        set_model_props(model, {key: text for key, text in told.items() if text is not None})

    return edited(describe)


def resized(**values: Any) -> Callable[[Path], None]:
    return described(resize=json.dumps({**json.loads(METADATA['resize']), **values}))


def named(name: str) -> Callable[[Path], None]:
    """The model with this name for all of its classes."""
    return described(classes=json.dumps([name] * 4))


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    'no metadata': (edited(lambda m: m.ClearField('metadata_props')), 'is for an unknown task'),
    'features': (described(task='features'), 'is for features'),
    'no resize': (described(resize=None), 'is for semantic segmentation; use a file'),
    'resize is deep': (described(resize='[' * 100_000), 'resize cannot be read as JSON'),
    'scale is negative': (resized(scale=[-5, 5]), 'resize.scale is [-5, 5]'),
    'scale is huge': (resized(scale=[10**9, 10**9]), 'resize.scale is [1000000000'),
    'scale is broken': (resized(scale=[1.5, 2]), 'resize.scale is [1.5, 2]'),
    'divisor is huge': (resized(divisor=10**9), 'resize.divisor is 1000000000'),
    'rounding is odd': (resized(rounding='sideways'), "'sideways'"),
    'pad is huge': (resized(pad=[10**9, 10**9]), 'resize.pad is [1000000000'),
    'a lone surrogate': (named('a\ud800b'), '\\ud800'),
    'a name of a megabyte': (named('x' * 2**20), 'classes is ['),
    '200 MB of classes': (
        lambda p: described(classes=json.dumps(['x' * 100] * 2_000_000))(p),
        'classes has 208,000,000'),
    '200 MB of digits': (
        lambda p: described(mask_threshold='9' * 200_000_000)(p), 'mask_threshold has 200,000,000'),
    'scale is beyond floats': (
        described(resize=f'{{"scale": [{HUGE}, 64]}}'), 'resize.scale is [999'),
    'scale is beyond integers': (
        described(resize=f'{{"scale": [{LONG}, 64]}}'), 'resize is not valid JSON'),
    'pad value is beyond floats': (
        described(resize=f'{{"pad": [64, 64], "pad_value": {HUGE}}}'),
        'resize.pad_value is 999'),
    'offset is huge': (described(label_offset=HUGE), 'label_offset is 999'),
    'colors are odd': (described(network_colors='CMYK'), "network_colors is 'CMYK'"),
    'text of escape sequences': (
        described(classes='["\\u001b[2J"]', resize='"\x1b[2J"'),
        'resize is not valid JSON'),
}  # fmt: skip
GOOD: dict[str, Callable[[Path], Any]] = {
    'an entry that nobody knows': described(anything='['),
    '200 MB that nobody reads': lambda p: described(anything='x' * 200_000_000)(p),
    'a name in Chinese': named('\u5206\u5272'),
    'a name from right to left': named('\u202eabc'),
    'no classes': described(classes=None),
    'no mean': described(mean=None),
    'no palette': described(palette=None),
    'palette is short': described(palette='[[1, 2, 3]]'),
}
# what quantize can do without, or asks for instead
BY_QUANTIZE = {'no metadata': '--shape', 'no resize': '--shape', 'features': 'features'}
