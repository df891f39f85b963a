"""Prediction on files, with visualizations and results."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.utils.progress import progress

from .coco_ids import CocoIds, find_ids
from .frames import Frame, count_frames, read_frames
from .inputs import Source, find_inputs
from .model import LoadedModel, load_predictor
from .writers import CocoWriter, LabelMapWriter, PictureWriter, Writer

SCORE_THR = 0.3  # default for visualizations


@dataclass
class PredictOptions:
    """Options of a prediction run.

    Args:
        out: A ``.json`` file for a detector, a folder for a segmentor; None writes no results.
        pictures: Folder for the visualizations; None draws none.
        score_thr: Score threshold, in [0, 1]; None draws scores from 0.3 and writes all results.
        device: See :func:`mmeffvit.inference.model.load_predictor`.
        batch_size: Batch size. A segmentor batches images of the same size only.
        cfg_options: Dotted keys and values that override the config's.
    """

    out: Path | None = None
    pictures: Path | None = None
    score_thr: float | None = None
    device: str = 'auto'
    batch_size: int = 1
    cfg_options: Mapping[str, Any] = field(default_factory=dict)


def predict(
    config_path: str, checkpoint: str | None, inputs: Sequence[str], options: PredictOptions
) -> int:
    """Predict on files, folders, globs and videos, and write results incrementally.

    Args:
        config_path: A config of mmdet or mmseg.
        checkpoint: See :func:`mmeffvit.inference.model.load_predictor`.
        inputs: See :func:`mmeffvit.inference.inputs.find_inputs`.
        options: See :class:`PredictOptions`.

    Returns:
        The exit code: 1 if an input could not be read, otherwise 0.

    Raises:
        UserError: If the run is impossible.
        mmeffvit.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    check_options(options)
    if options.out is None and options.pictures is None:
        raise UserError('--no-pictures without --out would write nothing: give --out')
    found = find_inputs(inputs)
    predictor = load_predictor(
        config_path, checkpoint, device=options.device, cfg_options=options.cfg_options
    )
    ids = find_ids(predictor.dataset, predictor.classes)
    check_outputs(predictor.scope, found.sources, options)
    writers = make_writers(predictor, ids, options)
    failures: list[str] = []

    def report(text: str) -> None:
        failures.append(text)
        print(f'skipped: {text}', file=sys.stderr, flush=True)

    for text in found.unreadable:
        report(text)
    frames = read_frames(found.sources, predictor.read, report)
    frames = progress(frames, 'predicting', count_frames(found.sources))
    done = run(predictor, ids, frames, writers, options)
    summarize(done, failures, predictor, ids, options)
    return 1 if failures else 0


def check_options(options: PredictOptions) -> None:
    if options.score_thr is not None and not 0 <= options.score_thr <= 1:
        raise UserError(f'--score-thr is {options.score_thr}; give a score from 0 to 1')
    if options.batch_size < 1:
        raise UserError(f'--batch-size is {options.batch_size}; give 1 or more')


def check_outputs(scope: str, sources: Iterable[Source], options: PredictOptions) -> None:
    """Check in advance that all results have different files.

    Raises:
        UserError: If ``--out`` has the wrong type, or an input or a result would be overwritten.
    """
    if options.out is not None and (options.out.suffix == '.json') != (scope == 'mmdet'):
        wanted = 'a .json file, for a detector' if scope == 'mmdet' else 'a folder, for a segmentor'
        raise UserError(f'--out is {str(options.out)!r}; give {wanted}')
    taken: dict[Path, Path] = {source.path: source.path for source in sources}
    for source in sources:
        targets = []
        if options.pictures is not None:
            targets.append(options.pictures / source.picture)
        if options.out is not None and scope == 'mmseg' and not source.is_video:
            targets.append(options.out / source.labels)
        for target in targets:
            other = taken.get(target.resolve())
            if other is not None:
                raise UserError(
                    f'the result {target} of {source.path} would overwrite {other} or its result: '
                    'choose other folders for --out-dir and --out, or fewer inputs'
                )
            taken[target.resolve()] = source.path


def make_writers(predictor: LoadedModel, ids: CocoIds, options: PredictOptions) -> list[Writer]:
    writers: list[Writer] = []
    if options.pictures is not None:
        writers.append(PictureWriter(options.pictures))
    if options.out is not None and predictor.scope == 'mmdet':
        writers.append(CocoWriter(options.out, ids, options.score_thr or 0.0))
    elif options.out is not None:
        writers.append(LabelMapWriter(options.out, label_offset(predictor)))
    return writers


def label_offset(predictor: LoadedModel) -> int:
    """1 if 0 is no class in the data set's own label maps, as in ADE20K, otherwise 0."""
    return int(bool(getattr(predictor.dataset, 'reduce_zero_label', False)))


def run(
    predictor: LoadedModel,
    ids: CocoIds,
    frames: Iterable[Frame],
    writers: Sequence[Writer],
    options: PredictOptions,
) -> int:
    """Predict and write results; if interrupted, keep the finished ones.

    Returns:
        The number of images and frames.
    """
    draw_thr = SCORE_THR if options.score_thr is None else options.score_thr
    number = 0
    try:
        for batch in batches(prepared(predictor, ids, frames), predictor.scope, options.batch_size):
            samples = predictor.predict([data for _, data in batch])
            for (frame, _), sample in zip(batch, samples, strict=True):
                picture = None
                if options.pictures is not None:
                    picture = predictor.draw(frame.image, sample, draw_thr)
                for writer in writers:
                    writer.write(frame, sample, picture)
                number += 1
    except BaseException as error:
        left = [writer.abandon() for writer in writers]
        if isinstance(error, KeyboardInterrupt):
            error.__notes__ = [f'{number} images and frames are done: {", ".join(left)}']
        raise
    for writer in writers:
        writer.close()
    return number


Prepared = tuple[Frame, dict[str, Any]]


def prepared(predictor: LoadedModel, ids: CocoIds, frames: Iterable[Frame]) -> Iterator[Prepared]:
    """Every frame with the output of its test pipeline."""
    for frame in frames:
        path = frame.source.path
        image_id = ids.image_id(path, is_image=frame.number is None)
        data = predictor.prepare(frame.image, path, image_id)
        data['data_samples'].set_metainfo(dict(img_id=image_id))
        yield frame, data


def batches(items: Iterable[Prepared], scope: str, size: int) -> Iterator[list[Prepared]]:
    """Batches of consecutive items; of equal shape for a segmentor, which does not pad."""
    batch: list[Prepared] = []
    for item in items:
        shape = item[1]['inputs'].shape
        differs = batch and scope == 'mmseg' and batch[0][1]['inputs'].shape != shape
        if len(batch) == size or differs:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def summarize(
    done: int,
    failures: Sequence[str],
    predictor: LoadedModel,
    ids: CocoIds,
    options: PredictOptions,
) -> None:
    """Print what was done, where the results are and what their numbers mean."""
    print(f'{done} images and frames' + (f', {len(failures)} skipped' if failures else ''))
    if options.pictures is not None:
        print(f'pictures: {options.pictures}')
    if options.out is None:
        return
    print(f'results: {options.out}')
    if predictor.scope == 'mmdet':
        print(f'category ids: {ids.category_source}')
        print(f'image ids: {options.out.with_name(options.out.stem + ".images.json")}')
    else:
        start = label_offset(predictor)
        last = start + len(predictor.classes) - 1
        print(f'values: {start} is {predictor.classes[0]}, {last} is {predictor.classes[-1]}')
