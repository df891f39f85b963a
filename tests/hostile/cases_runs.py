"""Run folders and checkpoints of others: their configs name programs where classes are expected."""

import io
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from tests.hostile.commands import Door, command, in_turn, needs, read_content
from tests.hostile.judge import CANARY, Case
from tests.hostile.world import World

GROUP = 'runs'
PROGRAM = dict(type='os.system', command=f'touch {CANARY}')
# where mmengine looks a class up, and imports what it does not know
PLACES = (
    'model', 'model.backbone', 'model.backbone.init_cfg', 'model.neck', 'model.data_preprocessor',
    'model.roi_head.bbox_head.bbox_coder', 'model.roi_head.mask_head.loss_mask',
    'model.train_cfg.rpn.assigner', 'test_dataloader.dataset', 'test_dataloader.sampler',
    'test_dataloader.dataset.pipeline.0', 'test_dataloader.collate_fn', 'visualizer',
    'visualizer.vis_backends.0', 'default_hooks.logger', 'custom_hooks.0', 'test_evaluator',
    'test_cfg', 'train_cfg', 'optim_wrapper', 'param_scheduler.0', 'log_processor',
)  # fmt: skip
EVERYWHERE = ('model', 'model.backbone', 'test_dataloader.dataset.pipeline.0')


def infer(name: str) -> Callable[[Path], None]:
    """The inferencer of mmdet, which takes the config inside a checkpoint."""

    def job(folder: Path) -> None:
        from mmdet.apis import DetInferencer

        import mmeffvit  # noqa: F401  guards mmengine

        try:
            inferencer = DetInferencer(weights=name, device='cpu')
        except ValueError as error:  # of mmengine: it finds no config
            print(f'error: {error}')
            raise SystemExit(1) from error
        inferencer('images/a.jpg', out_dir='pictures', no_save_pred=False)

    return job


# what opens `got`: a folder, or a checkpoint in one
CHEAP: dict[str, Door] = {
    'predict, folder': Door(
        lambda name: command('predict', 'got', 'images/a.jpg', '--out-dir', 'pictures'),
        makes=('pictures/a.jpg',),
    ),
    'predict, checkpoint': Door(
        lambda name: command('predict', name, 'images/a.jpg', '--out-dir', 'pictures'),
        makes=('pictures/a.jpg',),
    ),
    'complexity': Door(lambda name: command('complexity', 'got'), says=('total',)),
    'test': Door(lambda name: command('test', 'got', '--work-dir', 'work'), says=('box AP',)),
}
INSIDE = 'DetInferencer'
DOORS = {
    **CHEAP,
    INSIDE: Door(infer, makes=('pictures/vis/a.jpg',)),
    'export': Door(lambda name: command('export', 'got', 'out.onnx'), makes=('out.onnx',)),
    'web': Door(lambda name: command('web', 'got', 'page'), makes=('page/index.html',)),
    'distill': Door(
        lambda name: command(
            'distill', 'rtmdet_swiftformer_xs', 'got', 'shapes/train2017', '--min-score', 0.01,
            '--sure-score', 0.02,
            '--epochs', 1, '--batch', 2, '--nproc-per-node', 1, '--image-size', 64,
            '--weights', 'none', '--export', 'none', '--losses', 'none', '--no-comparison',
            '--work-dir', 'work',
        ),
        makes=('work/run/epoch_1.pth',),
    ),
}  # fmt: skip
CHECKPOINT = 'got/epoch_2.pth'


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, 'shapes', 'images')
    for how, door in DOORS.items():
        yield Case(GROUP, how, 'good', door.call(CHECKPOINT),
                   in_turn(ready, partial(got, world, how, lambda config: None)), 'work',
                   door.says, door.makes, is_control=True)  # fmt: skip
    yield Case(GROUP, 'complexity', 'bad', command('complexity', 'got'),
               in_turn(ready, lambda folder: (folder / 'got').mkdir()),
               says=("'got' is a folder without a run",), is_control=True)  # fmt: skip
    for place in PLACES:
        for how, door in DOORS.items():
            if place in EVERYWHERE or how in (*CHEAP, INSIDE):
                yield Case(GROUP, how, place, door.call(CHECKPOINT),
                           in_turn(ready, partial(got, world, how, partial(change, place))),
                           'either' if how == INSIDE else 'reject', says=('got/', "'os.system'"),
                           codes=(1, 2) if how == INSIDE else (2,))  # fmt: skip
    for what, (text, word) in TEXTS.items():
        for how, door in CHEAP.items():
            prepare = in_turn(ready, partial(got_text, world, text))
            yield Case(GROUP, how, what, door.call(CHECKPOINT), prepare, says=('got', word))


def got(world: World, how: str, edit: Callable[[Any], Any], folder: Path) -> None:
    """A run of another person: its config beside the checkpoint, or inside."""
    config = Config.fromfile(str(world / 'run' / 'detector.py'))
    edit(config)
    (folder / 'got').mkdir()
    content = read_content(world / 'run' / 'epoch_2.pth')
    if how == INSIDE:
        content['message_hub']['runtime_info']['cfg'] = config.pretty_text
        content['meta']['cfg'] = config.pretty_text
    else:
        config.dump(folder / 'got' / 'config.py')
    buffer = io.BytesIO()
    torch.save(content, buffer)
    (folder / CHECKPOINT).write_bytes(buffer.getvalue())


def change(place: str, config: Any) -> None:
    """Put the program at a dotted place, which is made if need be."""
    keys = [int(key) if key.isdigit() else key for key in place.split('.')]
    holder = config
    for key, inner in pairwise(keys):
        if isinstance(key, str) and not holder.get(key):
            holder[key] = [None] if inner == 0 else {}
        holder = holder[key]
    holder[keys[-1]] = dict(PROGRAM)


def got_text(world: World, text: str, folder: Path) -> None:
    got(world, '', lambda config: None, folder)
    path = folder / 'got' / 'config.py'
    path.write_text(path.read_text() + text)
    (folder / 'got' / 'payload.py').write_text(f'open({CANARY!r}, "w")')


TEXTS: dict[str, tuple[str, str]] = {
    'code': (f'\nopen({CANARY!r}, "w")\n', 'got'),
    'a base': ("\n_base_ = 'payload.py'\n", 'got'),
    'custom imports': ("\ncustom_imports = dict(imports=['got.payload'])\n", 'got.payload'),
    'a scope': ("\ndefault_scope = 'got.payload'\n", 'got.payload'),
    'a variable of the environment': ('\nx = "{{$HOME:x}}"\n', 'got'),
}
