"""Prediction on files, with visualizations and results."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mmeffvit.errors import UserError
from mmeffvit.utils.messages import progress
from mmeffvit.utils.text import align, counted, escape, listed

from .coco_ids import CocoIds
from .inputs import Frame, count_frames, find_inputs, read_frames
from .predictor import SCORE_THR, BasePredictor, check_thresholds, drawing_writer, predict_frames
from .results import ClassScores, Detections, Result
from .writers import ClassWriter, CocoWriter, LabelMapWriter, Writer, check_outputs

SHOWN = 20  # images of a classifier in the summary


@dataclass
class PredictOptions:
    """Options of a prediction run."""

    # a ``.json`` file for the results of a detector or classifier; None writes none
    out: Path | None = None
    label_maps: Path | None = None  # folder for the label maps of a segmentor; None writes none
    drawings: Path | None = None  # folder for the visualizations; None draws none
    # score threshold, in [0, 1]; None draws scores from 0.3 and writes all results
    score_thr: float | None = None
    batch_size: int = 1  # a segmentor batches images of the same size only


@dataclass
class Tally(Writer):
    """Counts detections, and images by their class."""

    threshold: float  # lowest score of the detections that count
    found: int | None  # number of detections; None if the model finds none
    highest: float = 0.0  # the highest score of all detections
    # image, best class and score of a classifier, for the first images
    classes: list[tuple[str, str, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # number of images by their best class

    def write(self, frame: Frame, result: Result) -> None:
        if isinstance(result, ClassScores):
            name = result.names[0]
            self.counts[name] += 1
            if len(self.classes) < SHOWN:
                row = (frame.name.as_posix(), name, f'{result.scores.max():.3f}')
                self.classes.append(row)
        if isinstance(result, Detections) and len(result):
            self.found += int((result.scores >= self.threshold).sum())

    def see(self, result: Result) -> None:
        if isinstance(result, Detections) and len(result):
            self.highest = max(self.highest, float(result.scores[0]))


@dataclass(frozen=True)
class Summary:
    """Results of a prediction run."""

    done: int  # images and frames of videos
    tally: Tally
    skipped: list[str]  # inputs that could not be read, with the reason
    written: list[str]  # lines that describe the files

    def __str__(self) -> str:
        tally, line = self.tally, counted(self.done, 'image')
        if tally.found is not None:
            line += f', {counted(tally.found, "object")} above {tally.threshold:g}'
            show_highest = not tally.found and tally.highest > 0
            line += f' (highest {tally.highest:.2g})' if show_highest else ''
        if self.skipped:
            line += f', {len(self.skipped)} skipped'
        lines = [line]
        if tally.classes:
            lines += align([('image', 'class', 'score'), *tally.classes], numbers=False)
            lines.append(listed(f'{name} {count}' for name, count in tally.counts.most_common()))
        return '\n'.join([*lines, *self.written])


def predict(
    open_predictor: Callable[[], BasePredictor],
    inputs: Sequence[str],
    options: PredictOptions,
    report: Callable[[str], None],
) -> Summary:
    """Predict on files, folders, globs and videos, and write results incrementally.

    ``open_predictor`` loads the model, after the arguments were checked; ``report`` is called with
    a line for every input that is skipped.

    Raises:
        UserError: If the run is impossible.
        mmeffvit.models.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    check_thresholds(options.score_thr, options.batch_size)
    if not (options.out or options.label_maps or options.drawings):
        raise UserError(
            '--no-save-vis alone would write nothing: give --out or, for a segmentor, '
            '--label-map-dir'
        )
    found = find_inputs(inputs)
    predictor = open_predictor()
    ids = predictor.coco_ids()
    check_kind(predictor, options)
    check_outputs(found.sources, drawings=options.drawings, labels=options.label_maps)
    writers = make_writers(predictor, ids, options)
    if found.others:
        kinds = listed(f'{n} of type {kind or "(none)"}' for kind, n in found.others.items())
        report(f'ignored, neither image nor video: {kinds}')
    skipped: list[str] = []

    def skip(text: str) -> None:
        skipped.append(text)
        report(f'skipped: {text}')

    for text in found.unreadable:
        skip(escape(text))
    frames = read_frames(found.sources, predictor.read, skip)
    frames = progress(frames, 'predicting', count_frames(found.sources))
    threshold = SCORE_THR if options.score_thr is None else options.score_thr
    tally = Tally(threshold, found=0 if predictor.is_detector else None)
    every = [tally, *writers]
    results = predict_frames(predictor, frames, every, options.score_thr, options.batch_size, skip)
    done = sum(1 for _ in results)
    return Summary(done, tally, skipped, describe_files(predictor, ids, options))


def check_kind(predictor: BasePredictor, options: PredictOptions) -> None:
    """Reject label maps of a detector or classifier, and a file of results of a segmentor."""
    writes_file = predictor.is_detector or predictor.is_classifier
    if options.out is not None and not writes_file:
        raise UserError(f'--out is {str(options.out)!r}; for a segmentor, give --label-map-dir')
    if options.label_maps is not None and writes_file:
        raise UserError(
            f'--label-map-dir is {str(options.label_maps)!r}, and only segmentors have label maps: '
            'give --out FILE.json'
        )
    if options.out is not None and options.out.suffix != '.json':
        raise UserError(f'--out is {str(options.out)!r}; give a .json file')


def make_writers(predictor: BasePredictor, ids: CocoIds, options: PredictOptions) -> list[Writer]:
    writers: list[Writer] = []
    if options.drawings is not None:
        writers.append(drawing_writer(predictor, options.drawings, options.score_thr))
    if options.out is not None and predictor.is_detector:
        writers.append(CocoWriter(options.out, ids))
    elif options.out is not None:
        writers.append(ClassWriter(options.out, options.score_thr or 0.0))
    if options.label_maps is not None:
        writers.append(LabelMapWriter(options.label_maps, predictor.label_offset))
    return writers


def describe_files(predictor: BasePredictor, ids: CocoIds, options: PredictOptions) -> list[str]:
    """Paths of the results, and the meaning of their numbers."""
    lines = [] if options.drawings is None else [f'visualizations: {options.drawings}']
    if options.out is not None:
        lines.append(f'results: {options.out}')
        if predictor.is_detector:
            lines.append(f'category ids: {ids.category_source}')
            lines.append(f'image ids: {options.out.with_name(options.out.stem + ".images.json")}')
    if options.label_maps is not None:
        lines.append(f'label maps: {options.label_maps}')
        first, classes = predictor.label_offset, predictor.classes
        if classes:
            last = first + len(classes) - 1
            lines.append(f'values: {first} is {classes[0]}, {last} is {classes[-1]}')
    return lines
