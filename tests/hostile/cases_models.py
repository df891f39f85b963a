"""Exported models: invalid files, and arguments that cannot work."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile.commands import command, needs
from tests.hostile.damage import damaged
from tests.hostile.judge import Case
from tests.hostile.world import World, dice

READY = ('model.onnx', 'images')


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY)

    def prepare(make: Callable[[Path], Any], folder: Path) -> None:
        ready(folder)
        make(folder / 'model.onnx')

    for number, (what, make) in enumerate(BAD.items()):
        for place, (how, job) in enumerate(USERS.items()):
            if more > 1 or number % len(USERS) == place:
                yield Case('models', f'{what}, {how}', job, partial(prepare, make),
                           expect='either' if is_tolerated(what, how) else 'reject')  # fmt: skip
    for what, arguments in ARGUMENTS.items():
        yield Case('models', f'quantize: {what}', quantize(*arguments), ready)
    for what, arguments in PROFILES.items():
        yield Case('models', f'profile: {what}', command('profile', *arguments), ready)
    for what, call in CALLS.items():
        yield Case('models', f'predictor: {what}', partial(called, call), ready)
    for how, job in USERS.items():
        yield Case('models', f'good, {how}', job, ready, expect='work')
    content = (world / 'model.onnx').read_bytes()
    for number in range(8 * more):

        def spoil(path: Path, number: int = number) -> None:
            path.write_bytes(damaged(content, dice('onnx', seed, number)))

        yield Case('models', f'random {number}', USERS['predictor'], partial(prepare, spoil),
                   expect='either')  # fmt: skip


def quantize(*arguments: object) -> Callable[[Path], None]:
    return command(
        'quantize', *(arguments or ('model.onnx', 'images', 'out.onnx')), '--allow-slower'
    )


def predictor(folder: Path) -> None:
    from mmeffvit import ExportedPredictor

    ExportedPredictor('model.onnx', threads=1)('images', out_dir='pictures')


USERS: dict[str, Callable[[Path], None]] = {
    'predictor': predictor,
    'quantize': quantize('model.onnx', 'images', 'out.onnx', '--exclude', 'none'),
    'web': command('web', 'model.onnx', 'page'),
}


def edited(edit: Callable[[Any], Any]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        import onnx

        model = onnx.load(path)
        edit(model)
        path.write_bytes(model.SerializeToString())

    return make


def outside(model: Any, location: str) -> None:
    """Weights in another file."""
    from onnx import TensorProto

    weights = model.graph.initializer[0]
    weights.ClearField('raw_data')
    weights.data_location = TensorProto.EXTERNAL
    entry = weights.external_data.add()
    entry.key, entry.value = 'location', location


def grown(model: Any) -> None:
    """An output of 2**40 numbers."""
    from onnx import TensorProto, helper

    shape = helper.make_tensor('shape', TensorProto.INT64, [4], [2**10] * 4)
    model.graph.initializer.append(shape)
    model.graph.node[0].output[0] = 'small'
    model.graph.node.insert(1, helper.make_node('ReduceMax', ['small'], ['one'], keepdims=0))
    model.graph.node.insert(2, helper.make_node('Expand', ['one', 'shape'], ['scores']))


BAD: dict[str, Callable[[Path], Any]] = {
    'missing': Path.unlink,
    'empty': lambda p: p.write_bytes(b''),
    'text': lambda p: p.write_text('not a model'),
    'half': lambda p: p.write_bytes(p.read_bytes()[:150]),
    'folder': lambda p: (p.unlink(), p.mkdir()),
    'closed': lambda p: p.chmod(0),
    'no graph': edited(lambda m: m.ClearField('graph')),
    'unknown operator': edited(lambda m: setattr(m.graph.node[0], 'op_type', 'Nothing')),
    'unknown domain': edited(lambda m: setattr(m.graph.node[0], 'domain', 'nothing')),
    'circle of nodes': edited(lambda m: m.graph.node[0].input.__setitem__(0, 'label_map')),
    'opset of the future': edited(lambda m: setattr(m.opset_import[0], 'version', 9999)),
    'weights elsewhere': edited(partial(outside, location='../../../etc/passwd')),
    'weights in a device': edited(partial(outside, location='/dev/zero')),
    'two inputs': edited(lambda m: m.graph.input.append(
        type(m.graph.input[0]).FromString(
            m.graph.input[0].SerializeToString().replace(b'images', b'others')))),
    'input of integers': edited(
        lambda m: setattr(m.graph.input[0].type.tensor_type, 'elem_type', 7)),
    'an output too large': edited(grown),
}  # fmt: skip
# what a command does not look at, or can do without
TOLERATED = {'opset of the future'}


def is_tolerated(what: str, how: str) -> bool:
    # the page runs the model, not the command that writes it
    return what in TOLERATED or (what, how) == ('an output too large', 'web')


ARGUMENTS: dict[str, tuple[object, ...]] = {
    'size of zero': ('model.onnx', 'images', 'out.onnx', '--size', 0, 0),
    'negative size': ('model.onnx', 'images', 'out.onnx', '--size', -64, 64),
    'huge size': ('model.onnx', 'images', 'out.onnx', '--size', 10**6, 10**6),
    'no samples': ('model.onnx', 'images', 'out.onnx', '--samples', 0),
    'unknown node': ('model.onnx', 'images', 'out.onnx', '--exclude', 'nothing'),
    'no folder': ('model.onnx', 'nothing', 'out.onnx'),
    'a file as the folder': ('model.onnx', 'images/a.jpg', 'out.onnx'),
    'score of 7': ('model.onnx', 'images', 'out.onnx', '--score-thr', 7),
}
PROFILES: dict[str, tuple[object, ...]] = {
    'no model': ('nothing.onnx',),
    'no threads': ('model.onnx', '--threads', 0),
    'no images': ('model.onnx', '--images', 'nothing'),
    'a folder as the model': ('images',),
}
CALLS: dict[str, Callable[[Any], Any]] = {
    'no image': lambda p: p('nothing.png'),
    'an array of floats': lambda p: p(np.zeros((9, 9, 3))),
    'an array of gray': lambda p: p(np.zeros((9, 9), np.uint8)),
    'an array of nothing': lambda p: p(np.zeros((0, 9, 3), np.uint8)),
    'an array of channels first': lambda p: p(np.zeros((3, 9, 9), np.uint8)),
    'None': lambda p: p(None),
    'None in a list': lambda p: p(['images', None]),
    'a null byte': lambda p: p('images/\0.png'),
    'a threshold of NaN': lambda p: p('images', score_thr=np.nan),
    'a threshold of text': lambda p: p('images', score_thr='0.3'),
    'batches of nothing': lambda p: p('images', batch_size=0),
    'batches of half an image': lambda p: p('images', batch_size=0.5),
    'pictures where a file is': lambda p: p('images', out_dir='model.onnx'),
}


def called(call: Callable[[Any], Any], folder: Path) -> None:
    from mmeffvit import ExportedPredictor

    call(ExportedPredictor('model.onnx', threads=1))
