"""The students of ``docs/distillation.md``: ``python -m benchmarks.students``.

It takes an hour on a CPU, with generated shapes or with images in COCO format. These are
too few to learn what others show: there, students are judged on those whose labels only the
teacher has seen.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pycocotools.coco import COCO

from mmeffvit import Predictor
from mmeffvit.analysis.coco_results import read_ground_truth
from mmeffvit.data.check import check
from mmeffvit.data.prepare import PrepareOptions, read
from mmeffvit.data.shapes import ShapesSpec, generate
from mmeffvit.data.write import draw
from mmeffvit.inference.coco_ids import CocoIds
from mmeffvit.inference.results import Detections
from mmeffvit.inference.writers import coco_results
from mmeffvit.train.engine.coco_metric import HotEval
from mmeffvit.utils.images import read_labels, write_image

from .machine import ROOT
from .public.evaluate import map_metrics

SPEC = ShapesSpec(num_train=640, num_val=80, side=64, max_objects=3)
NUM_LABELED = 8
SEEDS = (0, 1, 2)
LOADERS = [
    f'{split}_dataloader.{option}'
    for split in ('train', 'val', 'test')
    for option in ('num_workers=0', 'persistent_workers=False')
]
COMMON = (
    '--weights', 'none', '--batch', 8, '--nproc-per-node', 1, '--patience', 0, '--export', 'none',
)  # fmt: skip


@dataclass(frozen=True)
class Study:
    """A task: its models, its data, and how long both train."""

    teacher: str  # its config
    student: str
    epochs: tuple[int, int]  # of the teacher, and of the student
    loss: str  # against a teacher in every step
    maps: bool = False  # learn label maps: object or background
    teacher_changes: tuple[str, ...] = ()  # of its config
    changes: tuple[str, ...] = ()  # of the student's config


def every(steps: int) -> tuple[str, ...]:
    """Changes of a segmentor, whose own rate and intervals are for long runs with weights."""
    intervals = (f'train_cfg.val_interval={steps}', f'default_hooks.checkpoint.interval={steps}')
    return ('optim_wrapper.optimizer.lr=1e-3', *intervals)


SEGMENTORS = ('segformer_swiftformer_xs_ade20k', 'segformer_mobilevitv2_050_ade20k')
STUDIES = {
    'shapes': (
        Study('rtmdet_swiftformer_xs', 'rtmdet_mobilevitv2_050', (16, 5), 'cwd'),
        Study(*SEGMENTORS, (5, 4), 'pixels', True, every(200), every(80)),
    ),
    'coco': (
        Study('gflite_swiftformer_xs', 'gflite_shvit_s1', (250, 120), 'cwd'),
        Study(*SEGMENTORS, (100, 50), 'pixels', True, every(200), every(200)),
    ),
}


def write_few(source: Path, folder: Path, count: int) -> Path:
    """Copy the first training images of a set in COCO format, and those held out, with labels."""
    for split in ('train2017', 'val2017'):
        content = json.loads((source / 'annotations' / f'instances_{split}.json').read_text())
        content['images'] = content['images'][: count if split == 'train2017' else None]
        kept = {image['id'] for image in content['images']}
        rows = [row for row in content['annotations'] if row['image_id'] in kept]
        (folder / split).mkdir(parents=True)
        text = json.dumps({**content, 'annotations': rows})
        (folder / f'instances_{split}.json').write_text(text)
        for image in content['images']:
            shutil.copy(source / split / image['file_name'], folder / split)
    return folder


def write_data(source: Path, folder: Path) -> None:
    """Write some of the images with labels, and these and all as label maps of one class."""
    write_few(source, folder / 'few', NUM_LABELED)
    for name, root in (('all', source), ('few', folder / 'few')):
        data = read(root, PrepareOptions())
        check(data)
        for split, pictures in data.splits.items():
            images = folder / f'{name}_maps' / 'images' / split
            images.mkdir(parents=True)
            for picture in pictures:
                stem = f'{split}_{picture.path.stem}'
                shutil.copy(picture.path, images / f'{stem}{picture.path.suffix}')
                labels = (draw(picture, data) > 0).astype(np.uint8)
                masks = folder / f'{name}_maps' / 'masks' / split
                write_image(masks / f'{stem}.png', labels)
        (folder / f'{name}_maps' / 'classes.txt').write_text('background\nobject\n')


def run(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, '-m', 'mmeffvit', *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, 'OMP_NUM_THREADS': '1'},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=7200,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@dataclass(frozen=True)
class Bench:
    """Where the students of one kind of images are trained.

    Args:
        source: The images with all labels, in COCO format.
        folder: Gets everything that is made.
        side: Size that is trained with, in pixels.
        transfer: Judge on the images whose labels only the teacher has seen, not on others.
    """

    source: Path
    folder: Path
    side: int
    transfer: bool

    def results(self, study: Study) -> Iterator[tuple[str, int, float]]:
        """What was trained, the seed, and its metric in percent."""
        data, few = self.source, self.folder / 'few'
        if study.maps:
            data, few = self.folder / 'all_maps', self.folder / 'few_maps'
        common = ('--image-size', self.side, *COMMON)
        options = ('--cfg-options', *LOADERS)
        teacher = self.folder / f'teacher_{study.teacher}'
        text = run('train', data, '--model', study.teacher, '--epochs', study.epochs[0],
                   '--work-dir', teacher, *common, *options, *study.teacher_changes)  # fmt: skip
        yield 'teacher', 0, self.judge(teacher, text)
        for seed in SEEDS:
            for loss, more in (('none', ()), (study.loss, ('--no-comparison',))):
                made = self.folder / f'{study.student}_{loss}_{seed}'
                text = run(
                    'distill', study.student, *self.weights(teacher), self.source / 'train2017',
                    '--labeled', few, '--losses', loss, '--seed', seed, '--epochs',
                    study.epochs[1], '--work-dir', made, *more, *common, *options, *study.changes,
                )  # fmt: skip
                if not more:
                    yield 'alone', seed, self.judge(made / 'alone', text, row='alone')
                yield f'distilled, losses {loss}', seed, self.judge(made, text)

    def weights(self, work_dir: Path) -> tuple[Path, ...]:
        """A run, or its config and last weights where no validation can tell which are the best."""
        if not self.transfer:
            return (work_dir,)
        last = (work_dir / 'run' / 'last_checkpoint').read_text().strip()
        return next(work_dir.glob('*.py')), Path(last)

    def judge(self, work_dir: Path, text: str, row: str = 'distilled') -> float:
        """The metric of a run in percent: as it printed it, or on the images without labels."""
        if self.transfer:
            return self.on_unlabeled(work_dir)
        found = re.findall(rf'^{row} +[\d,]+ +([\d.]+)', text, re.MULTILINE)
        found = found or re.findall(r'\n  (?:box AP|mIoU) +([\d.]+) %', text)
        return float(found[-1])

    def on_unlabeled(self, work_dir: Path) -> float:
        """Box AP or mIoU of the last checkpoint on the images whose labels the teacher has seen."""
        truth = read_ground_truth(self.source / 'annotations' / 'instances_train2017.json')
        wanted = truth.getImgIds()[NUM_LABELED:]
        names = {i: truth.loadImgs(i)[0]['file_name'] for i in wanted}
        predictor = Predictor(*self.weights(work_dir), device='cpu')
        found = {i: predictor(self.source / 'train2017' / name) for i, name in names.items()}
        if predictor.is_detector:
            return box_ap(truth, found)
        masks = self.folder / 'all_maps' / 'masks' / 'train'
        wanted_maps = [read_labels(masks / f'train_{Path(names[i]).stem}.png') for i in found]
        maps = [result.labels for result in found.values()]
        return map_metrics(wanted_maps, maps, ('background', 'object'))['mIoU']


def box_ap(truth: COCO, found: dict[int, Detections]) -> float:
    """Box AP in percent on some images of a dataset."""
    ids = {row['name']: row['id'] for row in truth.loadCats(truth.getCatIds())}
    rows = [
        dict(row, image_id=image)
        for image, result in found.items()
        for row in coco_results(result, CocoIds([ids[name] for name in result.classes], ''))
    ]
    if not rows:
        return 0.0
    evaluation = HotEval(truth, truth.loadRes(rows), 'bbox')
    evaluation.params.imgIds = list(found)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return 100 * float(evaluation.stats[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('folder', type=Path, help='a new folder for everything that is made')
    parser.add_argument('--coco', type=Path, help='folder in COCO format; default: shapes')
    given = parser.parse_args()
    kind = 'coco' if given.coco else 'shapes'
    source = given.coco or given.folder / 'shapes'
    if not given.coco:
        generate(source, SPEC)
    write_data(source, given.folder)
    bench = Bench(source, given.folder, 128 if given.coco else 64, bool(given.coco))
    for study in STUDIES[kind]:
        for what, seed, value in bench.results(study):
            print(f'{study.student}, {what}, seed {seed}: {value:.1f}', flush=True)


if __name__ == '__main__':
    main()
