"""The end of a run on a folder: pictures, tables, exported files, and the next commands."""

import shlex
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS
from mmengine.runner import Runner

from mmeffvit.analysis.contact_sheet import draw_contact_sheet
from mmeffvit.analysis.curves import plot_curves
from mmeffvit.analysis.error_curves import analyze
from mmeffvit.analysis.per_class import per_class
from mmeffvit.config.datasets import datasets_of, evaluated_split
from mmeffvit.config.load import load_config
from mmeffvit.deploy.evaluate import FileStep
from mmeffvit.deploy.export import ToolOptions, export_model
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.table import BY_SUFFIX, format_of
from mmeffvit.deploy.int8.quantize import quantize
from mmeffvit.errors import UserError
from mmeffvit.inference.predictor import Predictor
from mmeffvit.train.engine.evaluate import EvaluationOptions, evaluate
from mmeffvit.train.engine.metrics import in_percent
from mmeffvit.train.folder.advice import advice
from mmeffvit.train.folder.options import FinetuneOptions
from mmeffvit.utils.messages import logger
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import reason
from mmeffvit.zoo.runs import best_checkpoint

DEFAULT_EXPORT, NO_EXPORT = ('.onnx',), 'none'
ZERO = 0.05  # percent: 0.0 in tables


def check_exports(options: FinetuneOptions) -> FinetuneOptions:
    """The options with the formats that will be exported; UserError if one cannot be."""
    export = exportable(options.export)
    if options.int8 and '.onnx' not in export:
        raise UserError(
            f'--int8 quantizes the .onnx file, and --export is {" ".join(export) or NO_EXPORT}; '
            'add .onnx to --export, or leave --int8 out'
        )
    if options.int8:
        require('onnxruntime.quantization', '--int8')
    return replace(options, export=export)


def companions_of(path: Path) -> set[Path]:
    """The files beside an exported one."""
    return {path.with_suffix(suffix) for suffix in BY_SUFFIX[path.suffix].companions}


def exportable(suffixes: Sequence[str] | None) -> list[str]:
    """The formats to export at the end, whose packages must be installed before training."""
    if suffixes == [NO_EXPORT]:
        return []
    try:
        for suffix in suffixes or DEFAULT_EXPORT:
            format_of(f'model{suffix}').check(ExportOptions(shape=(64, 64), batch=1))
    except UserError as error:
        if suffixes is not None:
            raise
        logger.info(f'nothing will be exported: {error}')
        return []
    return list(suffixes or DEFAULT_EXPORT)


def finish(config_path: Path, options: FinetuneOptions, weights: str | None) -> dict[str, float]:
    """Test the best checkpoint, write all files of ``result/``, and return the metrics.

    Args:
        config_path: The config, beside ``run/``.
        options: Options of the run, from :func:`check_exports`.
        weights: URL of pretrained weights, suggested after training from scratch.
    """
    result = config_path.with_name('result')
    checkpoint = best_checkpoint(config_path.with_name('run')).path
    test = EvaluationOptions(
        result / 'test', options.cfg_options, verbose=options.verbose, out=result / 'found.pkl'
    )
    runner, metrics = evaluate(str(config_path), str(checkpoint), test)
    run = FinishedRun(config_path, checkpoint, runner, options.cfg_options, metrics)
    jobs: dict[str, Callable[[], object]] = {
        'pictures': run.sheet, 'curves': run.curves, 'per class': run.table,
    }  # fmt: skip
    if run.config.default_scope == 'mmdet':
        jobs['errors'] = run.errors
    jobs |= {suffix: partial(run.export, suffix) for suffix in options.export}
    rows = {name: f'{value} %{run.details(name)}' for name, value in in_percent(metrics).items()}
    rows['best'] = str(checkpoint)
    for name, job in jobs.items():
        with test.output(test.work_dir):
            rows[name] = outcome_of(job)
    lines = [f'\n{config_path.stem} on {Path(run.config.data_root).name}']
    lines += [f'  {name:<14}{text}' for name, text in rows.items()]
    lines += advice(run.config, in_percent(metrics), weights, run.unlearned)
    logger.info('\n'.join(lines))
    if options.int8:  # last: all else is complete, and said, if there is not enough memory
        logger.info('  quantizing model.onnx to int8')
        with test.output(test.work_dir):
            row = outcome_of(run.int8)
        logger.info(f'  {"int8":<14}{row}')
    with test.output(test.work_dir):
        folders = [image_of(dataset, 0).parent for dataset in (run.tested, run.trained_on)]
    logger.info(next_commands(config_path, run.config, *folders, run.files))
    return metrics


def outcome_of(job: Callable[[], object]) -> str:
    """What a job returns, or why it failed: one that fails leaves the others."""
    try:
        return str(job())
    except UserError as error:
        return f'not made: {error}'
    except Exception as error:  # exporters raise various ones
        traceback.print_exc()
        return f'not made: {reason(error)}'


@dataclass(frozen=True)
class FinishedRun:
    """A trained and tested model; each method writes a file or folder and returns its path."""

    config_path: Path
    checkpoint: Path
    runner: Runner  # of the test
    cfg_options: Mapping[str, Any]
    metrics: Mapping[str, float]
    unlearned: list[str] = field(default_factory=list)  # names of classes with an AP or IoU of 0
    files: list[Path] = field(default_factory=list)  # exported; there may be some of earlier runs

    def details(self, name: str) -> str:
        """The AP at an IoU of 0.5 of a detector, and the split of the test images."""
        key = {'box AP': 'coco/bbox_mAP_50', 'mask AP': 'coco/segm_mAP_50'}.get(name)
        ap50 = f' (AP50 {100 * self.metrics[key]:.1f} %)' if key in self.metrics else ''
        return f'{ap50} on the {self.split} split'

    @property
    def split(self) -> str:
        """The split that is tested: the validation images, if there are no test images."""
        return evaluated_split(self.config)

    @property
    def result(self) -> Path:
        return self.config_path.with_name('result')

    @cached_property
    def config(self) -> Config:
        return load_config(self.config_path, self.cfg_options)

    @property
    def tested(self) -> BaseDataset:
        return self.runner.test_loop.dataloader.dataset

    @cached_property
    def trained_on(self) -> BaseDataset:
        (first, *_) = datasets_of(self.config, 'train')
        return DATASETS.build({**first, 'pipeline': []})

    def sheet(self) -> Path:
        draw_contact_sheet(self.runner, self.result / 'contact_sheet.png', self.split)
        return self.result / 'contact_sheet.png'

    def curves(self) -> Path:
        plot_curves([self.config_path.with_name('run')], self.result / 'curves.png')
        return self.result / 'curves.png'

    def table(self) -> Path:
        found = self.result / 'found.pkl'
        (first, *_) = per_class(str(self.config_path), found, self.result, self.cfg_options)
        self.unlearned.extend(name for name, value in first.values.items() if value < ZERO)
        return self.result / 'per_class.md'

    def errors(self) -> Path:
        evaluator, out = self.config.test_evaluator, self.result / 'errors'
        types = ('bbox', 'segm') if 'segm' in evaluator.metric else ('bbox',)
        found = str(self.result / 'found.pkl')
        analyze(found, evaluator.ann_file, out, types=types, classes=self.config.classes)
        return out

    @cached_property
    def predictor(self) -> Predictor:
        return Predictor(
            self.config_path, self.checkpoint, device='cpu', cfg_options=self.cfg_options
        )

    def export(self, suffix: str) -> Path:
        path = self.result / f'model{suffix}'
        taken = {each for file in self.files for each in companions_of(file)}
        if taken & companions_of(path):  # OpenVINO and ncnn both have a .bin
            path = path.with_stem(f'model_{suffix[1:]}')
        shape = tuple(self.tested[0]['inputs'].shape[1:])
        options = ToolOptions(
            shape=shape if BY_SUFFIX[suffix].is_fixed else None,
            batch=1 if BY_SUFFIX[suffix].is_fixed else None,
            image=image_of(self.tested, 0),
        )
        export_model(self.predictor, path, options)
        self.files.append(path)
        return path

    def int8(self) -> str:
        """Quantize the exported file, calibrated on training images, and measure the result."""
        exported = self.result / 'model.onnx'
        if exported not in self.files:
            raise UserError('model.onnx was not exported')
        found = quantize(
            exported,
            [image_of(self.trained_on, index) for index in range(len(self.trained_on))],
            self.result / 'int8.onnx',
            allow_slower=True,  # the file may be for another machine
        )
        self.files.append(found.out)
        options = EvaluationOptions(
            self.result / 'test_int8', self.cfg_options, step=FileStep(found.out)
        )
        _, metrics = evaluate(str(self.config_path), None, options)
        name, value = next(iter(in_percent(metrics).items()))
        return f'{found.out}: {found.chosen}; {name} {value} % on the {self.split} split'


def image_of(dataset: BaseDataset, index: int) -> Path:
    return Path(dataset.get_data_info(index)['img_path'])


def next_commands(
    config_path: Path, config: Config, images: Path, training: Path, files: Collection[Path]
) -> str:
    """Three commands to continue with, which can be pasted.

    They predict on the test ``images``, and calibrate on those in the folder ``training``;
    ``files`` are those that were exported.
    """
    folder = config_path.parent
    onnx, small = (folder / 'result' / name for name in ('model.onnx', 'int8.onnx'))
    again = ['train', config_path, '--work-dir', folder / 'run2']
    if config.get('processes', 1) > 1:
        again += ['--nproc-per-node', config.processes]
    predict = ['predict', folder, images, '--out-dir', folder / 'predictions']
    rows = [(f'predict on images, here on those in {images}', predict)]
    if onnx not in files:
        rows.append(('make a file for other programs', ['export', folder, onnx]))
    elif small not in files:
        rows.append(('make the file smaller', ['quantize', onnx, training, small]))
    else:
        command = ['predict', small, images, '--out-dir', folder / 'int8']
        rows.append((f'run {small.name} on them', command))
    rows.append(('train again, after changes of the config', again))
    lines = [f'to {what}:\n  mmeffvit {shlex.join(map(str, words))}' for what, words in rows]
    return '\n'.join(['', *lines])
