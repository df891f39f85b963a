"""Exported models: invalid files, and arguments that cannot work."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile.commands import Door, at, command, controls, in_turn, needs, predict_exported
from tests.hostile.damage import install_ghostscript, postscript, spoil
from tests.hostile.judge import Case
from tests.hostile.world import World

GROUP, READY = 'models', ('model.onnx', 'images')
QUANTIZE = ('quantize', 'model.onnx', 'images', 'out.onnx', '--allow-slower')
PROFILE = ('profile', 'model.onnx', '--shape', 64, 64, '--formats', '.onnx', '--threads', 1,
           '--seconds', 0.01)  # fmt: skip
DOORS = {
    'ExportedPredictor': Door(predict_exported, makes=('pictures/a.jpg',)),
    'quantize': Door(lambda _: command(*QUANTIZE, '--exclude', 'none'), makes=('out.onnx',)),
    'web': Door(lambda _: command('web', 'model.onnx', 'page'), makes=('page/index.html',)),
}
PROFILER = {'profile': Door(lambda _: command(*PROFILE), says=('fastest that agrees',))}


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, *READY)
    yield from controls(GROUP, {**DOORS, **PROFILER}, 'model.onnx', world, 'images')
    yield Case(GROUP, 'ExportedPredictor', 'bad', predict_exported('nothing.onnx'), ready,
               says=("'nothing.onnx' does not exist",), is_control=True)  # fmt: skip
    for what, (make, word) in BAD.items():
        for how, door in DOORS.items():
            # the page runs the model, not the command that writes it
            is_written = (what, how) == ('an output too large', 'web')
            yield Case(GROUP, how, what, door.call('model.onnx'), in_turn(ready, at_model(make)),
                       expect='work' if is_written else 'reject',
                       says=() if is_written else (word,))  # fmt: skip
    for what, (word, *arguments) in ARGUMENTS.items():
        yield Case(GROUP, arguments[0], what, command(*arguments), ready, says=(word,))
    yield Case(GROUP, 'quantize', 'images that are PostScript', command(*QUANTIZE), in_turn(
        ready, install_ghostscript, *(postscript(f'images/{n}') for n in ('a.jpg', '000000.png'))
    ), 'either', says=('images/',))  # fmt: skip
    for what, (word, inputs, options) in CALLS.items():
        job = predict_exported('model.onnx', inputs, **options)
        yield Case(GROUP, 'ExportedPredictor', what, job, ready, says=(word,))
    for number in range(8 * more):
        yield Case(GROUP, 'ExportedPredictor', f'random {number}', predict_exported('model.onnx'),
                   in_turn(ready, spoil('model.onnx', 'onnx', seed, number)), 'either',
                   says=('model',))  # fmt: skip


at_model = partial(at, 'model.onnx')


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
    model.graph.node[1].output[0] = 'small'
    model.graph.node.insert(2, helper.make_node('ReduceMax', ['small'], ['one'], keepdims=0))
    model.graph.node.insert(3, helper.make_node('Expand', ['one', 'shape'], ['scores']))


UNREADABLE = 'model.onnx cannot be read as a model'
ABSENT = "'model.onnx' does not exist"
BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    'missing': (Path.unlink, ABSENT),
    'empty': (lambda p: p.write_bytes(b''), UNREADABLE),
    'text': (lambda p: p.write_text('not a model'), UNREADABLE),
    'half': (lambda p: p.write_bytes(p.read_bytes()[:150]), UNREADABLE),
    'folder': (lambda p: (p.unlink(), p.mkdir()), ABSENT),
    'closed': (lambda p: p.chmod(0), UNREADABLE),
    'no graph': (edited(lambda m: m.ClearField('graph')), UNREADABLE),
    'unknown operator': (
        edited(lambda m: setattr(m.graph.node[0], 'op_type', 'Nothing')), UNREADABLE),
    'unknown domain': (edited(lambda m: setattr(m.graph.node[0], 'domain', 'nothing')), UNREADABLE),
    'circle of nodes': (
        edited(lambda m: m.graph.node[0].input.__setitem__(0, 'label_map')), UNREADABLE),
    'opset of the future': (
        edited(lambda m: setattr(m.opset_import[0], 'version', 9999)), UNREADABLE),
    'weights elsewhere': (edited(partial(outside, location='../../../etc/passwd')), UNREADABLE),
    'weights in a device': (edited(partial(outside, location='/dev/zero')), UNREADABLE),
    'two inputs': (edited(lambda m: m.graph.input.append(
        type(m.graph.input[0]).FromString(
            m.graph.input[0].SerializeToString().replace(b'images', b'others')))),
        'model.onnx takes other inputs'),
    'input of integers': (
        edited(lambda m: setattr(m.graph.input[0].type.tensor_type, 'elem_type', 7)), UNREADABLE),
    'an output too large': (edited(grown), 'does not run on images of (1, 3, 64, 64)'),
}  # fmt: skip
# words of the refusal, and the call
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    'size of zero': ('--shape is (0, 0)', *QUANTIZE, '--shape', 0, 0),
    'negative size': ('--shape is (-64, 64)', *QUANTIZE, '--shape', -64, 64),
    'huge size': ('--shape is (1000000, 1000000)', *QUANTIZE, '--shape', 10**6, 10**6),
    'no samples': ('--max-images is 0', *QUANTIZE, '--max-images', 0),
    'unknown node': ('is called nothing', *QUANTIZE, '--exclude', 'nothing'),
    'no folder': ('nothing is not a folder', *QUANTIZE[:2], 'nothing', 'out.onnx'),
    'a file as the folder': (
        'images/a.jpg is not a folder',
        *QUANTIZE[:2],
        'images/a.jpg',
        'out.onnx',
    ),
    'no agreement': ('--min-agreement is nan', *QUANTIZE, '--min-agreement', 'nan'),
    'score of 7': ('--score-thr is 7.0', *QUANTIZE, '--score-thr', 7),
    'no model': ("'nothing.onnx' does not exist", 'profile', 'nothing.onnx'),
    'no threads': ('--threads is 0', *PROFILE[:-4], '--threads', 0),
    'no images': ("--images 'nothing'", *PROFILE, '--images', 'nothing'),
    'a folder as the model': ("'images' is a folder without a run", 'profile', 'images'),
}
# words of the refusal, the inputs and the options
CALLS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    'no image': ("'nothing.png' does not exist", 'nothing.png', {}),
    'an array of floats': ('float64 of shape (9, 9, 3)', np.zeros((9, 9, 3)), {}),
    'an array of two channels': ('(9, 9, 2)', np.zeros((9, 9, 2), np.uint8), {}),
    'an array of nothing': ('(0, 9, 3)', np.zeros((0, 9, 3), np.uint8), {}),
    'an array of channels first': ('(3, 9, 9)', np.zeros((3, 9, 9), np.uint8), {}),
    'None': ('an input is of type NoneType', None, {}),
    'None in a list': ('an input is of type NoneType', ['images', None], {}),
    'a null byte': (r"'images/\x00.png' does not exist", 'images/\0.png', {}),
    'a threshold of NaN': ('threshold is nan', 'images', dict(score_thr=np.nan)),
    'a threshold of text': ("threshold is '0.3'", 'images', dict(score_thr='0.3')),
    'batches of nothing': ('batch size is 0', 'images', dict(batch_size=0)),
    'batches of half an image': ('batch size is 0.5', 'images', dict(batch_size=0.5)),
    'pictures where a file is': ("'model.onnx' is a file", 'images', dict(out_dir='model.onnx')),
}
