"""Distill a small model from a teacher, on unlabeled images."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mmeffvit.config.load import load_config, own_configs
from mmeffvit.data.files import find_images
from mmeffvit.data.predictions import Wanted, read_predictions
from mmeffvit.data.prepare import PrepareOptions, Reader, read, split_off
from mmeffvit.data.records import DataSet
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints import open_checkpoint
from mmeffvit.train.distillation.teacher import choose_losses
from mmeffvit.train.engine.metrics import in_percent
from mmeffvit.utils.files import read_json, stamp
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import align, check_names, counted, listed
from mmeffvit.zoo.nearest import nearest_config
from mmeffvit.zoo.runs import saved_checkpoints
from mmeffvit.zoo.source import Kind, classify, find_source

from .base import AUTO, Base, in_place
from .options import FinetuneOptions
from .run import Finish, finetune
from .write_config import Teaching

TEACHER, ALONE = 'teacher', 'alone'  # sub-folders of a work dir
# numbers of a student that training does not set itself
CHANGES = re.compile(r'model\.(data_preprocessor|backbone|neck)\.')
SET = re.compile(r'\.(size|drop_path_rate|num_classes)$')
NO_LOSS = 'none'
# of a :class:`mmeffvit.inference.pseudo_labels.Teacher`, from its name and its checkpoint
OpenTeacher = Callable[[str, str | None], Any]


@dataclass(frozen=True)
class DistillOptions:
    """Options of distillation."""

    checkpoint: str | None = None  # weights of a teacher that is a config
    labeled: Path | None = None  # labeled dataset, used for training too and for validation
    # predictions to use; by default, classes come from the labels, else from the student's weights,
    # else of the teacher
    wanted: Wanted = field(default_factory=Wanted)
    # see :class:`mmeffvit.train.distillation.teacher.TeacherHook`; ['none'] trains on predictions
    # alone; None selects the loss of the task
    losses: Sequence[str] | None = None
    compare: bool = True  # also train the student on the labels alone, for as many steps
    finetune: FinetuneOptions = field(default_factory=FinetuneOptions)  # of the student


def distill(
    student: str,
    teacher: str,
    images: Path,
    options: DistillOptions,
    open_teacher: OpenTeacher,
    finish: Finish,
) -> dict[str, float]:
    """Train a student on what a teacher predicts for a folder of images.

    Args:
        student: Name of one of our configs, or one with weights: a run or a saved model.
        teacher: A config of mmdet or mmseg, a run or a saved model; an exported file; a JSON file
            of predictions; or a folder of label maps.
        images: Folder of images.
        options: See :class:`DistillOptions`.
        open_teacher: Opens a teacher that is a model.
        finish: See :func:`mmeffvit.train.folder.run.finetune`.

    Returns:
        The metrics of the best checkpoint of the student.

    Raises:
        UserError: If student, teacher, images or options do not fit each other.
    """
    options.wanted.check()
    images = images.resolve() if '..' in images.parts else images.absolute()
    find_images(images)
    name, weights, classes = open_student(student)
    wanted = options.wanted
    if not wanted.classes:  # of labels, known later, or else of the student
        own_classes = None if options.labeled is not None else classes
        wanted = replace(wanted, classes=own_classes, are_numbered=False)
    if wanted.classes:
        check_names(wanted.classes, '--classes')
    options = replace(options, wanted=wanted)
    own = options.finetune
    if weights is not None and own.weights == AUTO:
        own = replace(own, weights=weights)
    folder = own.work_dir or Path('work_dirs', f'{images.name}_{name}_distilled')
    own = replace(own, model=name, work_dir=folder)
    base = Base.of(name)
    teaching = make_teaching(teacher, base, options)
    if teaching.teacher is not None:
        own = with_one_process(own)
    taught = replace(
        own,
        reader=make_reader(teacher, base, folder.absolute() / TEACHER, options, open_teacher),
        teaching=teaching,
    )
    metrics = finetune(images, taught, finish)
    if options.labeled is not None and options.compare:
        compare(metrics, options.labeled, folder, base, own, finish)
    return metrics


def make_teaching(teacher: str, base: Base, options: DistillOptions) -> Teaching:
    """The losses and the teacher of a student; a PyTorch model runs in every step."""
    wanted = options.losses
    is_model = not is_file_of_predictions(teacher) and classify(teacher) is not Kind.EXPORTED
    if wanted not in (None, [NO_LOSS]) and not is_model:
        raise UserError(
            f'--losses compare with a teacher that runs in every step, and {teacher} does not: '
            'give its config and checkpoint'
        )
    if not is_model or wanted == [NO_LOSS]:
        return Teaching(options.wanted.sure_score)
    losses = tuple(choose_losses(wanted, base.config.default_scope))
    checkpoint = options.checkpoint and in_place(options.checkpoint)
    return Teaching(options.wanted.sure_score, in_place(teacher), checkpoint, losses=losses)


def with_one_process(own: FinetuneOptions) -> FinetuneOptions:
    """The same options for one process: adapters of the student are not synchronized."""
    if own.overrides.processes not in (None, 1):
        raise UserError(
            f'--nproc-per-node is {own.overrides.processes}, and a teacher runs in one process: '
            'give --losses none, or --nproc-per-node 1'
        )
    return replace(own, overrides=replace(own.overrides, processes=1))


def open_student(student: str) -> tuple[str, str | None, Sequence[str] | None]:
    """The name of its config, and its weights and classes if it has any."""
    if student in own_configs():
        return student, None, None
    if not classify(student).has_weights:
        raise UserError(
            f'the student is {student!r}; give the name of one of our configs, or a run or a saved '
            'model'
        )
    source = find_source(student)
    name, numbers = nearest_config(source.config)
    if changed := [key for key in numbers if CHANGES.match(key) and not SET.search(key)]:
        raise UserError(
            f'{student} differs from {name}, which would be trained, in {listed(changed)}: undo '
            f'that, or give {name} with --weights'
        )
    checkpoint = source.open_weights()
    return name, str(checkpoint.path), checkpoint.dataset_meta.get('classes') or None


def is_file_of_predictions(teacher: str) -> bool:
    """Whether a teacher is given by its predictions, not as a model."""
    path = Path(teacher)
    if path.suffix == '.json':  # or a config in JSON
        content = read_json(path)
        return not (isinstance(content, dict) and {'model', '_base_'} & content.keys())
    return path.is_dir() and classify(teacher) in (Kind.FOLDER, Kind.NAME)


def make_reader(
    teacher: str, base: Base, folder: Path, options: DistillOptions, open_teacher: OpenTeacher
) -> Reader:
    """A reader of a teacher's predictions instead of annotations; ``folder`` caches a model's."""
    opened = None
    if is_file_of_predictions(teacher):
        is_detector = Path(teacher).suffix == '.json'
    else:
        opened = open_teacher(teacher, options.checkpoint)
        is_detector = opened.is_detector
    if is_detector == base.is_segmentor:
        kinds = ('label maps', 'objects')
        raise UserError(
            f'the teacher {teacher} predicts {kinds[is_detector]}, the student {base.name} '
            f'{kinds[not is_detector]}: choose models of the same task'
        )

    def read_taught(images: Path, reading: PrepareOptions) -> DataSet:
        labeled = read_labeled(options.labeled, reading) if options.labeled else None
        wanted = options.wanted
        if labeled and not wanted.classes:
            wanted = replace(wanted, classes=labeled.classes)
        if opened is None:
            data = read_predictions(Path(teacher).absolute(), images, wanted)
        else:
            described = describe_teacher(teacher, options.checkpoint)
            data = opened.predict(described, images, folder, wanted, keep_masks=reading.needs_masks)
        logger.info(describe_labels(data, teacher))
        if labeled is not None:
            return merged(labeled, data)
        split_off(data, reading)
        for item in data.objects('val'):
            item.is_crowd |= item.score < wanted.sure_score  # neither right nor wrong
        if not data.has_label_maps and all(item.is_crowd for item in data.objects('val')):
            raise UserError(
                f'no prediction in {counted(len(data.splits["val"]), "image")} of validation '
                f'has a score of {wanted.sure_score} or more: give a lower --sure-score, or '
                'labeled images with --labeled'
            )
        return data

    return read_taught


def describe_teacher(teacher: str, checkpoint: str | None) -> dict[str, Any]:
    """The identity of a teacher: names, and sizes and times of its files."""
    names = [teacher, checkpoint]
    if checkpoint is None and classify(teacher).has_weights:
        names.append(str(find_source(teacher).open_weights().path))
    stamps = [stamp(name) for name in names if name is not None and os.path.isfile(name)]
    return dict(teacher=teacher, checkpoint=checkpoint, stamps=stamps)


def describe_labels(data: DataSet, teacher: str) -> str:
    """A summary of the teacher's predictions."""
    pictures = data.splits['train']
    text = f'{teacher}: {counted(len(pictures), "image")}'
    if data.has_label_maps:
        return f'{text}, {counted(len(data.classes), "class")}'
    scores = [item.score for item in data.objects('train')]
    empty = sum(not picture.objects for picture in pictures)
    return (
        f'{text}, {counted(len(scores), "object")} with a mean score of '
        f'{sum(scores) / max(1, len(scores)):.2f}; without an object: {empty:,}'
    )


def read_labeled(path: Path, reading: PrepareOptions) -> DataSet:
    """A labeled dataset with a validation split."""
    data = read(path, reading)
    split_off(data, reading)
    for item in data.objects():
        item.score = 1.0
    return data


def merged(labeled: DataSet, predicted: DataSet) -> DataSet:
    """Labeled images, and predictions to train on, of the same kind and classes."""
    if labeled.has_label_maps != predicted.has_label_maps:
        raise UserError(
            f'{labeled.root} has {"label maps" if labeled.has_label_maps else "objects"}, the '
            'teacher predicts the other: give labels of the same kind'
        )
    if labeled.classes != predicted.classes:
        raise UserError(
            f'the labels in {labeled.root} have the classes {listed(labeled.classes, 4)}, and '
            f'{listed(predicted.classes, 4)} are to be trained: leave out --classes'
        )
    labeled.splits['train'] = [*labeled.splits['train'], *predicted.splits['train']]
    for fault, places in predicted.findings.places.items():
        for place in places:
            labeled.findings.add(fault, place)
    return labeled


def compare(
    metrics: Mapping[str, float],
    labeled: Path,
    folder: Path,
    base: Base,
    own: FinetuneOptions,
    finish: Finish,
) -> None:
    """Train the student on the labels alone for as many steps, and report both."""
    steps, batch = steps_of(folder, base)
    logger.info(f'\nthe student alone, on the labels, for {counted(steps, "step")}')
    overrides = replace(own.overrides, batch=batch, epochs=None, steps=steps, patience=0)
    has_config = (folder / ALONE / f'{base.name}.py').is_file()
    options = replace(
        own,
        work_dir=folder / ALONE,
        overrides=overrides,
        reader=read_labeled,
        export=[],
        int8=False,
        resume='auto' if own.resume and has_config else None,
    )
    alone = finetune(labeled, options, finish)
    names = list(in_percent(metrics))
    rows = [('', 'steps', *names)]
    for what, found, run in (('alone', alone, folder / ALONE), ('distilled', metrics, folder)):
        values = in_percent(found)
        cells = (f'{values.get(name, "")}' for name in names)
        rows.append((what, f'{steps_of(run, base)[0]:,}', *cells))
    lines = ['\nthe student on the same validation images, in percent:', *align(rows)]
    logger.info('\n'.join(lines))


def steps_of(folder: Path, base: Base) -> tuple[int, int]:
    """Steps that a run took, and its batch size over all processes."""
    config = load_config(folder / f'{base.name}.py')
    latest = open_checkpoint(saved_checkpoints(folder / 'run')[0])
    return latest.meta['iter'], config.batch * config.get('processes', 1)
