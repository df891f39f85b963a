"""Evaluation of a checkpoint."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from mmengine.config import Config
from mmengine.evaluator import DumpResults
from mmengine.fileio import dump
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner
from torch import Tensor

from mmeffvit.config.datasets import limit_tests
from mmeffvit.config.load import ALL
from mmeffvit.errors import UserError
from mmeffvit.registries import HOOKS
from mmeffvit.train.checks.classes import check_heads
from mmeffvit.train.checks.data import check_data
from mmeffvit.train.checks.run import load_checked
from mmeffvit.utils.files import atomic_output, check_output, own_file
from mmeffvit.utils.palette import with_palette
from mmeffvit.zoo.source import find_source

from .launcher import build_runner, leave_process_group, unwrap
from .options import RunOptions, prepare
from .user_errors import building, name_unreadable, prepare_metrics, restrict_annotations, run


class Step(Protocol):
    """Predicts in place of a model."""

    def __call__(self, data: Mapping[str, Any]) -> list[Any]:
        """The data samples of a batch, with results."""

    def check(self, config: Config, dataset: Any) -> None:
        """Raise a ``UserError`` if it cannot predict on the test dataset of a config."""


@dataclass
class EvaluationOptions(RunOptions):
    """Options of an evaluation."""

    show_dir: str | Path | None = None  # folder for drawn predictions
    out: str | Path | None = None  # file for the predictions, ``.pkl``
    tta: bool = False  # test-time augmentation with the horizontal flip
    step: Step | None = None  # replaces the model's test step, whose weights are not loaded then
    max_images: int | None = None  # of every dataset; None for all


def evaluate(
    config_path: str, checkpoint: str | None, options: EvaluationOptions
) -> tuple[Runner, dict[str, float]]:
    """Evaluate a checkpoint as specified by a config of mmdet, mmseg or mmpretrain.

    Args:
        config_path: The config file, or a saved model, as a folder or as ``hf://OWNER/NAME``, or
            the work dir of a run.
        checkpoint: A checkpoint of a run with this config, or its released model; None for the
            saved one, the best one of the run, or the released one.
        options: See :class:`EvaluationOptions`.

    Returns:
        The runner, with the checkpoint in its model, and the metrics by name.

    Raises:
        UserError: If the config, the data or the environment cannot work, or the checkpoint is of
            another model or of other classes.
        mmeffvit.models.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    out = options.out
    if out is not None:
        check_output(out, '.pkl', '.pickle')
    runner, config = open_test(config_path, checkpoint, options)
    if out is not None:
        runner.test_evaluator.metrics.append(dump_results(config.default_scope, str(out)))
    runner.register_custom_hooks(options.hooks)
    with options.output(config.work_dir):
        metrics = run(runner, runner.test, config)
    leave_process_group()
    return runner, metrics


def open_test(
    config_path: str, checkpoint: str | None, options: EvaluationOptions
) -> tuple[Runner, Config]:
    """Check and prepare a test: the runner, with the weights in its model, and the config.

    For arguments and errors see :func:`evaluate`.
    """
    show_dir, step = options.show_dir, options.step
    source = find_source(config_path, options.cfg_options, ALL)
    config = source.config
    prepare(config, options)
    if show_dir:
        own_drawings(check_output(show_dir, folder=True))
    check_data(config, ('test',))
    weights = source.open_weights(checkpoint) if step is None else None
    if show_dir:
        draw_predictions(config, show_dir)
    if options.tta:
        augment_tests(config)
    limit_tests(config, options.max_images)
    config.load_from, config.resume = None, False  # the weights are loaded below
    with options.output(config.work_dir):
        runner = build_runner(config, to_test=True)
        with building(config):
            dataset = runner.test_loop.dataloader.dataset
        name_unreadable(dataset)
        if show_dir and config.default_scope != 'mmpretrain':
            runner.visualizer.dataset_meta = with_palette(dataset.metainfo)
        prepare_metrics(runner.test_loop.evaluator, config.work_dir)
        if options.max_images is not None:
            restrict_annotations(runner.test_loop.evaluator, dataset)
    model = unwrap(runner.model)
    check_heads(model, dataset, 'test')
    if step is None:
        load_checked(model, weights, dataset)
    else:
        step.check(config, dataset)
        model.test_step = step
    return runner, config


def own_drawings(folder: Path) -> None:
    """Apply :func:`own_file` where visualizers write: their images, and what is in ``vis_data``."""
    kept = folder / 'vis_data'
    for path in (*folder.glob('*.png'), kept, *kept.rglob('*')):
        if path.is_symlink() or not path.is_dir():
            own_file(path)


def draw_predictions(config: Config, show_dir: str | Path) -> None:
    """Enable the hook that draws predictions, of a dense model next to the ground truth."""
    folder = str(Path(show_dir).resolve())
    if config.default_scope == 'mmpretrain':
        hook = dict(type='mmeffvit.DrawClassesHook', folder=folder)
        config.setdefault('visualizer', dict(type='UniversalVisualizer'))
    elif config.default_scope == 'mmdet':
        hook = dict(type='DetVisualizationHook', draw=True, test_out_dir=folder)
    else:
        hook = dict(type='SegVisualizationHook', draw=True, interval=1)
        visualizer = dict(type='SegLocalVisualizer')
        # of the same name, it would be that of an earlier test in this process, with its folder
        visualizer.update(config.get('visualizer') or {}, name=folder, save_dir=folder)
        config.visualizer = dict(visualizer, vis_backends=[dict(type='LocalVisBackend')])
    config.setdefault('default_hooks', {})['visualization'] = hook


@HOOKS.register_module()
class DrawClassesHook(Hook):
    """Draws test images of a classifier, with their true and predicted classes.

    mmpretrain's hook takes BGR for RGB, and images of one name in two folders get one file.

    Args:
        folder: Folder of ``NUMBER_NAME.png``, in the order of the images.
    """

    def __init__(self, folder: str) -> None:
        self.folder, self.number = Path(folder), 0

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: dict, outputs: Sequence[Any]
    ) -> None:
        for image, sample in zip(data_batch['inputs'], outputs, strict=True):
            name = f'{self.number:06d}_{Path(sample.get("img_path") or "").stem}.png'
            rgb = image.flip(0).permute(1, 2, 0).cpu().numpy().astype('uint8')
            runner.visualizer.visualize_cls(rgb, sample, out_file=str(self.folder / name))
            self.number += 1


def augment_tests(config: Config) -> None:
    """Wrap the model and the test pipeline for flipped copies, by default a detector's."""
    if config.default_scope == 'mmdet':
        config.setdefault('tta_model', dict(type='mmeffvit.InstanceTTAModel'))
        *pipeline, pack = deepcopy(config.test_dataloader.dataset.pipeline)
        if 'meta_keys' in pack:  # they are among the default ones
            pack['meta_keys'] = (*pack['meta_keys'], 'flip', 'flip_direction')
        flips = [dict(type='RandomFlip', prob=prob) for prob in (0.0, 1.0)]
        twice = dict(type='TestTimeAug', transforms=[flips, [pack]])
        config.setdefault('tta_pipeline', [*pipeline, twice])
    if 'tta_model' not in config or 'tta_pipeline' not in config:
        raise UserError(f'--tta needs tta_model and tta_pipeline in {config.filename}')
    config.model = dict(**config.tta_model, module=config.model)
    config.test_dataloader.dataset.pipeline = config.tta_pipeline


class AtomicDump(DumpResults):
    """Predictions in a pickle, written atomically."""

    def compute_metrics(self, results: list) -> dict:
        with atomic_output(self.out_file_path) as partial:
            dump(results, partial)
        print_log(f'predictions: {self.out_file_path}', logger='current')
        return {}


class DumpLabelMaps(AtomicDump):
    """Dump label maps, predicted and true, in bytes where their labels fit.

    Scores would take 118 MB for one image of ADE20K, and all results are in memory at once.
    """

    def process(self, data_batch: Any, predictions: Sequence[dict]) -> None:
        kept = [{k: v for k, v in sample.items() if k != 'seg_logits'} for sample in predictions]
        for sample in kept:
            for key in {'pred_sem_seg', 'gt_sem_seg'} & sample.keys():
                sample[key] = {**sample[key], 'data': in_bytes(sample[key]['data'])}
        super().process(data_batch, kept)


def in_bytes(labels: Tensor) -> Tensor:
    """Integer labels as uint8, if all are from 0 to 255."""
    fits = labels.numel() == 0 or (labels.min() >= 0 and labels.max() < 256)
    return labels.to(torch.uint8) if fits else labels


def dump_results(scope: str, out: str) -> DumpResults:
    """The metric that dumps predictions to ``out``, with encoded masks for mmdet."""
    if scope == 'mmseg':
        return DumpLabelMaps(out_file_path=out)
    if scope == 'mmpretrain':
        return AtomicDump(out_file_path=out)
    from mmdet.evaluation import DumpDetResults

    class DumpDetections(AtomicDump, DumpDetResults):
        pass

    return DumpDetections(out_file_path=out)
