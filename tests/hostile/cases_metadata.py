"""Metadata of exported files: entries of wrong types, sizes and ranges, and odd names."""

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
        lambda _: command(
            'predict', 'model.onnx', 'images', '--label-map-dir', 'maps', '--out-dir', 'pics'
        ),
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
    'resize is no JSON': (described(resize='{'), 'resize is not valid JSON'),
    'resize is deep': (described(resize='[' * 100_000), 'resize cannot be read as JSON'),
    'resize is a list': (described(resize='[]'), 'resize is []'),
    'scale is a text': (resized(scale='x'), "resize.scale is 'x'"),
    'scale is negative': (resized(scale=[-5, 5]), 'resize.scale is [-5, 5]'),
    'scale is huge': (resized(scale=[10**9, 10**9]), 'resize.scale is [1000000000'),
    'divisor is zero': (resized(divisor=0), 'resize.divisor is 0'),
    'rounding is odd': (resized(rounding='sideways'), "'sideways'"),
    'interpolation is odd': (resized(interpolation='nothing'), "resize.interpolation is 'nothing'"),
    'backend is odd': (resized(backend='nothing'), "resize.backend is 'nothing'"),
    'pad is huge': (resized(pad=[10**9, 10**9]), 'resize.pad is [1000000000'),
    'pad value is a text': (resized(pad=[64, 64], pad_value='x'), "resize.pad_value is 'x'"),
    'pad value of two channels': (
        resized(pad=[64, 64], pad_value=[1, 2]), 'resize.pad_value is [1, 2]'),
    'keep ratio is a text': (resized(keep_ratio='x'), "resize.keep_ratio is 'x'"),
    'classes are a number': (described(classes='5'), 'classes is 5'),
    'classes are no JSON': (described(classes='x'), 'classes is not valid JSON'),
    'classes are numbers': (described(classes='[1, 2]'), 'classes is [1, 2]'),
    'palette is out of range': (described(palette='[[1, 2, 999]]'), 'palette is [[1, 2, 999]]'),
    'mean of two channels': (described(mean='[1, 2]'), 'mean is [1, 2]'),
    'mean is NaN': (described(mean='[NaN, 0, 0]'), 'mean is [nan'),
    'mask threshold is a text': (described(mask_threshold='x'), 'mask_threshold'),
    'a lone surrogate': (named('a\ud800b'), '\\ud800'),
    'a name of control characters': (named('a\0\7\x1b[2J'), '\\x1b[2J'),
    'a name of two lines': (named('a\nb'), 'a\\nb'),
    'an empty name': (named(''), "classes is ['', "),
    'a name of a megabyte': (named('x' * 2**20), 'classes is ['),
    '200 MB of classes': (
        lambda p: described(classes=json.dumps(['x' * 100] * 2_000_000))(p),
        'classes has 208,000,000'),
    '200 MB of digits': (
        lambda p: described(mask_threshold='9' * 200_000_000)(p), 'mask_threshold has 200,000,000'),
    'scale is beyond integers': (
        described(resize=f'{{"scale": [{LONG}, 64]}}'), 'resize is not valid JSON'),
    'pad value is beyond floats': (
        described(resize=f'{{"pad": [64, 64], "pad_value": {HUGE}}}'),
        'resize.pad_value is 999'),
    'mask threshold is beyond floats': (described(mask_threshold=HUGE), 'mask_threshold is 999'),
    'mask threshold is NaN': (described(mask_threshold='NaN'), 'mask_threshold is nan'),
    'mask threshold is above 1': (described(mask_threshold='2'), 'mask_threshold is 2'),
    'IoU threshold is negative': (described(iou_threshold='-1'), 'iou_threshold is -1'),
    'IoU threshold is a truth value': (described(iou_threshold='true'), 'iou_threshold is True'),
    'offset is 2': (described(label_offset='2'), 'label_offset is 2'),
    'offset is a fraction': (described(label_offset='0.5'), 'label_offset is 0.5'),
    'category ids are few': (described(category_ids='[1]'), 'category_ids and classes differ'),
    'category ids are negative': (
        described(category_ids='[-1, 2, 3, 4]'), 'category_ids is [-1, 2'),
    'task is a text': (described(task='dance'), "task is 'dance'"),
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
