"""Train a small model on a teacher's predictions for images without labels.

The teacher is a config of mmdet or mmseg with a checkpoint, a run or a saved model; a file of
`mmeffvit export`; COCO results (JSON); or a folder of label maps. Its predictions are kept in the
work dir, and the student is trained on them as by `mmeffvit train DATA`.
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.data.predictions import Wanted
from mmeffvit.deploy.runtime.predictor import ExportedPredictor
from mmeffvit.errors import UserError
from mmeffvit.inference.predictor import Predictor
from mmeffvit.inference.pseudo_labels import Teacher
from mmeffvit.train.folder.distill import DistillOptions, distill
from mmeffvit.zoo.source import Kind, classify

from .arguments import (
    add_allow_non_finite,
    add_cfg_options,
    add_verbose,
    new_parser,
    output_folder,
    take,
)
from .console import run_console
from .train import add_overrides, add_training, set_steps, take_finetune_options


def make_parser() -> ArgumentParser:
    parser = new_parser(
        __doc__, 'distill rtmdet_swiftformer_xs teacher.onnx photos --labeled data/bolts'
    )
    add = parser.add_argument
    add('student', metavar='STUDENT', help='name of one of our configs; or its run or saved model')
    # fmt: off
    add('teacher', metavar='TEACHER',
        help='config, run or saved model; exported file; .json file; or folder')
    add('images', nargs='+', metavar='[CHECKPOINT] IMAGES',
        help='checkpoint of a teacher that is a config; then a folder of images')
    add('--labeled', type=Path, metavar='DATA', help='dataset with labels to train and validate on')
    add('--classes', nargs='+', metavar='NAME', help='classes to train (default: all that fit)')
    add('--min-score', type=float, default=0.3, metavar='SCORE',
        help='minimum score of predictions to train on (default: %(default)s)')
    add('--sure-score', type=float, default=0.7, metavar='SCORE',
        help='predictions from this score are always labels, others with a probability equal to '
             'their score (default: %(default)s)')
    add('--ids', type=Path, metavar='FILE.json', help='COCO file with the ids in TEACHER.json')
    add('--losses', nargs='+', metavar='NAME',
        help='losses with a teacher that is a PyTorch model: cwd (default), imitation '
             'or crosskd for detectors, pixels (default) or cwd for segmentors, or none')
    add('--no-comparison', dest='compare', action='store_false',
        help='do not also train the student on only the labels')
    # fmt: on
    add('--work-dir', type=output_folder, metavar='FOLDER', help='folder for all outputs')
    add('--seed', type=int, help='random seed (default: 0)')
    add_verbose(parser)
    add_cfg_options(parser)
    add_training(parser)
    add_allow_non_finite(parser)
    add_overrides(parser.add_argument_group('training options'))
    return parser


def run(student: str, teacher: str, images: list[str], **values: Any) -> None:
    if len(images) > 2:
        raise UserError(
            f'{len(images)} arguments after the teacher; give [CHECKPOINT] and one folder of images'
        )
    set_steps(values)
    from .finish import check_exports, finish  # needs pycocotools

    *checkpoint, folder = images
    with run_console(values['verbose']) as hooks:
        options = DistillOptions(
            checkpoint=next(iter(checkpoint), None),
            finetune=check_exports(take_finetune_options(values, hooks)),
            wanted=Wanted(**take(values, Wanted)),
            **take(values, DistillOptions),
        )
        distill(student, teacher, Path(folder), options, open_teacher, finish)


def open_teacher(name: str, checkpoint: str | None) -> Teacher:
    """A model that predicts labels."""
    exported = classify(name) is Kind.EXPORTED
    return Teacher(name, ExportedPredictor(name) if exported else Predictor(name, checkpoint))
