"""The numbers of students in ``docs/distillation.md``: ``python -m tests.distillation.students``.

It takes an hour on a CPU. A folder as argument keeps what is made there.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from mmeffvit.data.check import check
from mmeffvit.data.prepare import PrepareOptions, read
from mmeffvit.data.write import draw
from mmeffvit.datasets.shapes import ShapesSpec, generate
from mmeffvit.utils.images import write_image
from tests.conftest import run_command

SPEC = ShapesSpec(num_train=640, num_val=80, side=64, max_objects=3)
NUM_LABELED = 8
SEEDS = (0, 1, 2)
LOADERS = [
    f'{split}_dataloader.{option}'
    for split in ('train', 'val', 'test')
    for option in ('num_workers=0', 'persistent_workers=False')
]
COMMON = (
    '--weights', 'none', '--image-size', 64, '--batch', 8, '--processes', 1, '--patience', 0,
)  # fmt: skip


@dataclass(frozen=True)
class Study:
    """A task: its models, its data, and how long both train.

    Args:
        teacher: Config of the teacher.
        student: Config of the student.
        data: Folder with the labels of all images.
        few: Folder with the labels of some.
        loss: Name of the loss against a teacher in every step.
        epochs: Those of the teacher, and of the student.
        teacher_changes: Changes of the config of the teacher.
        changes: Changes of the config of the student.
    """

    teacher: str
    student: str
    data: str
    few: str
    loss: str
    epochs: tuple[int, int]
    teacher_changes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


def every(steps: int) -> tuple[str, ...]:
    """Changes of a segmentor, whose own rate and intervals are for long runs with weights."""
    intervals = (f'train_cfg.val_interval={steps}', f'default_hooks.checkpoint.interval={steps}')
    return ('optim_wrapper.optimizer.lr=1e-3', *intervals)


STUDIES = (
    Study('rtmdet_swiftformer_xs', 'rtmdet_mobilevitv2_050', 'shapes', 'few', 'channels', (16, 5)),
    Study('segformer_swiftformer_xs_ade20k', 'segformer_mobilevitv2_050_ade20k', 'shapes_maps',
          'few_maps', 'pixels', (5, 4),
          every(200), every(80)),
)  # fmt: skip


def write_data(folder: Path) -> None:
    """Write the images with all labels and with some, each also as label maps of one class."""
    generate(folder / 'shapes', SPEC)
    for split in ('train2017', 'val2017'):
        source = folder / 'shapes' / 'annotations' / f'instances_{split}.json'
        content = json.loads(source.read_text())
        content['images'] = content['images'][: NUM_LABELED if split == 'train2017' else None]
        kept = {image['id'] for image in content['images']}
        rows = [row for row in content['annotations'] if row['image_id'] in kept]
        (folder / 'few' / split).mkdir(parents=True)
        text = json.dumps({**content, 'annotations': rows})
        (folder / 'few' / f'instances_{split}.json').write_text(text)
        for image in content['images']:
            shutil.copy(folder / 'shapes' / split / image['file_name'], folder / 'few' / split)
    for name in ('shapes', 'few'):
        data = read(folder / name, PrepareOptions())
        check(data)
        root = folder / f'{name}_maps'
        for split, pictures in data.splits.items():
            (root / 'images' / split).mkdir(parents=True)
            for picture in pictures:
                stem = f'{split}_{picture.path.stem}'
                shutil.copy(picture.path, root / 'images' / split / f'{stem}.png')
                labels = (draw(picture, data) > 0).astype(np.uint8)
                write_image(root / 'masks' / split / f'{stem}.png', labels)
        (root / 'classes.txt').write_text('background\nshape\n')


def run(*arguments: object) -> str:
    done = run_command(*arguments, env=dict(OMP_NUM_THREADS='1'), timeout=7200)
    assert done.returncode == 0, done.stdout
    return done.stdout


def results(study: Study, folder: Path) -> Iterator[tuple[str, int, float]]:
    """What was trained, the seed, and its metric in percent."""
    teacher, student = study.epochs
    options = ('--cfg-options', *LOADERS)
    made = folder / f'teacher_{study.data}'
    text = run('train', folder / study.data, '--model', study.teacher, '--epochs', teacher,
               '--work-dir', made, '--export', '.onnx', *COMMON, *options,
               *study.teacher_changes)  # fmt: skip
    yield 'teacher', 0, float(re.findall(r'\n  (?:box AP|mIoU) +([\d.]+) %', text)[-1])
    for seed in SEEDS:
        for name, target, more in (
            ('predictions', made / 'result' / 'model.onnx', ()),
            (study.loss, made, ('--no-comparison',)),
        ):
            text = run(
                'distill', study.student, target, folder / 'shapes' / 'train2017', '--labeled',
                folder / study.few, '--seed', seed, '--epochs', student, '--export', 'none',
                '--work-dir', folder / f'{study.data}_{name}_{seed}', *more, *COMMON, *options,
                *study.changes,
            )  # fmt: skip
            if not more:
                for row in ('alone', 'distilled'):
                    value = re.findall(rf'^{row} +[\d,]+ +([\d.]+)', text, re.MULTILINE)[-1]
                    yield row, seed, float(value)
            else:
                value = re.findall(r'\n  (?:box AP|mIoU) +([\d.]+) %', text)[-1]
                yield f'distilled, {name}', seed, float(value)


if __name__ == '__main__':
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(mkdtemp())
    write_data(place)
    for each in STUDIES:
        for what, seed, value in results(each, place):
            print(f'{each.student}, {what}, seed {seed}: {value}', flush=True)
