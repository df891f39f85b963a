"""The end of a run: pictures, tables, exported files, and the next commands."""

import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS
from mmengine.runner import Runner

from mmeffvit.checkpoints.download import FOLDER
from mmeffvit.config.datasets import datasets_of
from mmeffvit.config.load import load_config
from mmeffvit.deploy.export import ToolOptions, export_model
from mmeffvit.deploy.formats import FORMATS
from mmeffvit.deploy.int8.quantize import quantize
from mmeffvit.deploy.predictor.predictor import ExportedPredictor
from mmeffvit.engine.evaluate import evaluate
from mmeffvit.engine.metrics import LOW, in_percent
from mmeffvit.engine.options import RunOptions
from mmeffvit.errors import UserError
from mmeffvit.evaluation.per_class import per_class
from mmeffvit.inference.coco_ids import find_ids
from mmeffvit.inference.inputs import find_inputs, read_frames
from mmeffvit.inference.predictor import predict_frames
from mmeffvit.inference.writers import CocoWriter, LabelMapWriter
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import counted
from mmeffvit.visualization.contact_sheet import draw_contact_sheet
from mmeffvit.visualization.curves import plot_curves
from mmeffvit.visualization.error_curves import analyze
from mmeffvit.visualization.per_class import report_per_class
from mmeffvit.zoo.runs import best_checkpoint

INT8_STEPS = 300
INT8_IMAGES = 256  # at most, in memory


def finish(
    config_path: Path,
    folder: Path,
    export: Sequence[str],
    cfg_options: Mapping[str, Any],
    *,
    int8: bool = False,
    weights: str | None = None,
    verbose: bool = True,
) -> dict[str, float]:
    """Test the best checkpoint, and write pictures, tables and exported files.

    Args:
        config_path: The config of the run.
        folder: Contains ``run/``; ``result/`` is written.
        export: Suffixes of the files to export.
        cfg_options: Dotted keys and values that replace the config's.
        int8: Also fine-tune the ``.onnx`` file in int8.
        weights: URL of pretrained weights, suggested after training from scratch.
        verbose: See :class:`RunOptions`.

    Returns:
        The metrics by name.

    Raises:
        UserError: If there is no checkpoint.
    """
    result = folder / 'result'
    checkpoint = best_checkpoint(folder / 'run').path
    options = RunOptions(result / 'test', cfg_options, verbose=verbose)
    found = result / 'found.pkl'
    runner, metrics = evaluate(str(config_path), str(checkpoint), options, out=found)
    config = load_config(config_path, cfg_options)
    rows = {f'{name}': f'{value} %' for name, value in in_percent(metrics).items()}
    rows['best'] = str(checkpoint)
    jobs = dict(jobs_of(config_path, config, runner, folder, checkpoint, export, cfg_options))
    if int8:
        jobs['int8'] = partial(
            quantized, config_path, config, runner.test_loop.dataloader.dataset, result, cfg_options
        )
    for name, job in jobs.items():
        try:
            with options.output(options.work_dir):
                rows[name] = str(job())
        except UserError as error:  # one that fails leaves the others
            rows[name] = f'not made: {error}'
    lines = [f'\n{config_path.stem} on {Path(config.data_root).name}']
    lines += [f'  {name:<14}{text}' for name, text in rows.items()]
    lines += advice(config, in_percent(metrics), weights)
    logger.info('\n'.join(lines))
    logger.info(next_commands(config_path, config, image_of(runner).parent))
    return metrics


def advice(
    config: Config, metrics: Mapping[str, float], weights: str | None = None
) -> Iterator[str]:
    """Advice after a low metric, or after training from random weights."""
    name, value = next(iter(metrics.items()), ('', LOW))
    if value < LOW:
        steps = config.epochs * config.iterations
        yield f'{name} is {value} % after {counted(steps, "step")}: train longer, with --epochs N'
    if not config.get('load_from') and not config.model.backbone.get('init_cfg'):
        yield (
            'WARNING: trained from random weights, which takes many more images and epochs; '
            '--weights FILE starts from pretrained ones'
        )
        if weights is not None and not Path(weights).exists():
            yield (
                f'  on a machine with a network: mmeffvit download {weights} --to DIR\n'
                f'  here: {FOLDER}=DIR mmeffvit train ..., with a copy of DIR'
            )


def jobs_of(
    config_path: Path,
    config: Config,
    runner: Runner,
    folder: Path,
    checkpoint: Path,
    export: Sequence[str],
    cfg_options: Mapping[str, Any],
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The jobs after the test, by name in the table."""
    result = folder / 'result'
    dataset = runner.test_loop.dataloader.dataset

    def sheet() -> Path:
        draw_contact_sheet(runner, result / 'contact_sheet.png')
        return result / 'contact_sheet.png'

    def curves() -> Path:
        plot_curves([folder / 'run'], result / 'curves.png')
        return result / 'curves.png'

    def per_class() -> Path:
        report_per_class(str(config_path), result / 'found.pkl', result, cfg_options)
        return result / 'per_class.md'

    def errors() -> Path:
        types = ('bbox', 'segm') if 'segm' in config.test_evaluator.metric else ('bbox',)
        truth = config.test_evaluator.ann_file
        found = str(result / 'found.pkl')
        analyze(found, truth, result / 'errors', types=types, classes=config.classes)
        return result / 'errors'

    def exported(suffix: str) -> Path:
        path = result / f'model{suffix}'
        shape = tuple(dataset[0]['inputs'].shape[1:])
        options = ToolOptions(
            shape=shape if FORMATS[suffix].fixed else None,
            batch=1 if FORMATS[suffix].fixed else None,
            image=image_of(runner),
            cfg_options=cfg_options,
        )
        export_model(str(config_path), str(checkpoint), path, options)
        return path

    yield 'pictures', sheet
    yield 'curves', curves
    yield 'per class', per_class
    if config.default_scope == 'mmdet':
        yield 'errors', errors
    for suffix in export:
        yield suffix, partial(exported, suffix)


def quantized(
    config_path: Path,
    config: Config,
    tested: BaseDataset,
    result: Path,
    cfg_options: Mapping[str, Any],
) -> str:
    """Fine-tune the exported file in int8 on the training images."""
    (first, *_) = datasets_of(config, 'train')
    found = quantize(
        result / 'model.onnx',
        images_of(DATASETS.build({**first, 'pipeline': []})),
        result / 'int8.onnx',
        samples=INT8_IMAGES,
        finetune=INT8_STEPS,
        allow_slower=True,  # the file may be for another machine
        metric=partial(measured, config_path, tested, cfg_options),
    )
    return f'{found.out}: {found.chosen}'


def measured(
    config_path: Path, tested: BaseDataset, cfg_options: Mapping[str, Any], file: Path
) -> float:
    """The first metric of an exported file on the test data, in percent."""
    predictor = ExportedPredictor(file)
    frames = read_frames(find_inputs(images_of(tested)).sources, predictor.read, logger.warning)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, 'found.json' if predictor.is_detector else 'found')
        writer = (
            CocoWriter(out, find_ids(tested, predictor.classes))
            if predictor.is_detector
            else LabelMapWriter(out, predictor.label_offset)
        )
        predict_frames(predictor, frames, [writer], None, 1)
        return per_class(str(config_path), out, cfg_options)[0].mean


def images_of(dataset: BaseDataset) -> list[Path]:
    return [Path(dataset.get_data_info(index)['img_path']) for index in range(len(dataset))]


def image_of(runner: Runner) -> Path:
    return Path(runner.test_loop.dataloader.dataset.get_data_info(0)['img_path'])


def next_commands(config_path: Path, config: Config, images: Path) -> str:
    """Three commands to continue with, which can be pasted; ``images`` is a folder of images."""
    folder = config_path.parent
    onnx, small = (folder / 'result' / name for name in ('model.onnx', 'int8.onnx'))
    again = ['train', config_path, '--work-dir', folder / 'run2']
    if config.get('processes', 1) > 1:
        again += ['--processes', config.processes]
    rows = (
        (
            f'predict on images, here on those in {images}',
            ['predict', folder, images, '--out-dir', folder / 'predictions'],
        ),
        ('make a file for other programs', ['export', folder, onnx])
        if not onnx.is_file()
        else ('make the file smaller', ['quantize', onnx, images, small])
        if not small.is_file()
        else (
            f'run {small.name} on them',
            ['predict', small, images, '--out-dir', folder / 'int8'],
        ),
        ('train again, after changes of the config', again),
    )
    lines = [f'to {what}:\n  mmeffvit {shlex.join(map(str, words))}' for what, words in rows]
    return '\n'.join(['', *lines])
