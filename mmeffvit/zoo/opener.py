"""Build a model from a config, a saved model or a run, and a checkpoint."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DefaultScope
from torch import nn

from mmeffvit.config.beside import assigned_values
from mmeffvit.config.build import build_model, own_model_config, silenced
from mmeffvit.config.datasets import build_unread, eval_dataset
from mmeffvit.config.load import DENSE, load_config, open_config, own_configs
from mmeffvit.errors import UserError
from mmeffvit.models.backbone import log_report
from mmeffvit.models.checkpoints import Checkpoint, load_into, open_checkpoint
from mmeffvit.utils.images import SUFFIXES, VIDEOS
from mmeffvit.utils.schema import is_number

from .hub import (
    config_of_saved,
    describe_config,
    described_by_weights,
    differences,
    holds_model,
    nearest_config,
    read_folder,
    values_in,
)
from .identify import naming
from .metafile import read_models, weights_of
from .runs import best_checkpoint, config_of, find_run, is_run

CHECKPOINTS = ('.pth', '.pt', '.bin', '.ckpt', '.safetensors')
HANDLES = 'a config, the name of a model, a run folder, a checkpoint or a saved model'
EXPORTED = (
    'an exported file, which `mmeffvit predict`, `test CONFIG`, `quantize`, `web` and `profile` '
    'take'
)
KINDS = {
    **dict.fromkeys(('.onnx', '.xml', '.tflite', '.pte', '.param', '.mlpackage'), EXPORTED),
    **dict.fromkeys(SUFFIXES, 'an image'),
    **dict.fromkeys(VIDEOS, 'a video'),
    **dict.fromkeys(('.zip', '.tar', '.gz'), 'an archive'),
    **dict.fromkeys(('.txt', '.csv', '.log', '.md'), 'a text'),
}
PIPELINE = 'test_dataloader.dataset.pipeline'
SIZES = ('scale', 'size', 'divisor')  # ends of keys of transforms, in pixels
MAX_SIZE = 8192  # pixels, in a config inside a checkpoint


@dataclass(frozen=True)
class Source:
    """A config, and the weights that come with it."""

    target: str  # as the user gave it
    config: Config
    saved: Path | Checkpoint | None = None  # weights of a saved model
    run: Path | None = None  # the work dir

    @cached_property
    def own(self) -> Checkpoint | None:
        """The weights of the saved model, or the best ones of the run."""
        if self.saved is not None:
            return open_checkpoint(self.saved)
        return best_checkpoint(self.run) if self.run is not None else None

    def open_weights(self, given: str | Path | Checkpoint | None = None) -> Checkpoint:
        """The given checkpoint, else the own one, else the released one."""
        return open_checkpoint(given or self.own or weights_of(self.target))


def find_source(
    target: str,
    options: Mapping[str, Any] | None = None,
    scopes: Collection[str] = DENSE,
    *,
    named: bool = True,
) -> Source:
    """Find a config by path or name, or the config of a saved model, a run or a checkpoint.

    Args:
        target: A config, the name of one of ours, a saved model as a folder or as
            ``hf://OWNER/NAME``, the work dir of a run, or a checkpoint of a run or of a released
            model.
        options: Dotted keys and values that override the config's.
        scopes: Packages that it may be written for.
        named: Whether the user named the target; a config that is named elsewhere may only set
            values, like one that is found.

    Raises:
        UserError: If there is none, it is for another package, or the package does not work.
        CheckpointError: If a file of a saved model cannot be found or downloaded.
    """
    check_kind(target)
    if Path(target).suffix in CHECKPOINTS:
        return source_of_checkpoint(target, options or {}, scopes)
    if not is_folder(target):
        is_known = named or target in own_configs()
        return Source(target, open_config(target, options, scopes, named=is_known))
    run = None if holds_model(target) else find_run(Path(target))
    if run is not None:
        return Source(target, open_config(config_of(run), options, scopes, named=False), run=run)
    content, weights = read_folder(target)
    return Source(target, config_of_saved(target, content, options, scopes), saved=weights)


def check_kind(target: str) -> None:
    """Reject a file of another kind than a config, a model or a checkpoint."""
    path = Path(target)
    suffix = path.suffix.lower()
    if '://' in target or suffix not in (*KINDS, *CHECKPOINTS):
        return
    if not path.exists():
        raise UserError(f'{target!r} does not exist')
    if suffix in KINDS:
        raise UserError(f'{target!r} is {KINDS[suffix]}; give {HANDLES}')


def is_exported(target: str) -> bool:
    """Whether a target is an exported file, by its suffix."""
    return KINDS.get(Path(target).suffix) == EXPORTED


def holds_weights(target: str) -> bool:
    """Whether a target of the command line has weights of its own, so that none follow."""
    return Path(target).suffix in CHECKPOINTS or is_model(target)


def source_of_checkpoint(
    target: str, options: Mapping[str, Any], scopes: Collection[str]
) -> Source:
    """The config next to a checkpoint of a run, else the one inside it, else its weights' config.

    The config inside is not executed, as it could be any program: it may only differ in numbers
    from one of ours.
    """
    folder = Path(target).parent
    if '://' not in target and is_run(folder):
        config = open_config(config_of(folder), options, scopes, named=False)
        return Source(target, config, saved=Path(target))
    checkpoint = open_checkpoint(target)
    values = assigned_values(checkpoint.meta.get('cfg'))
    if values is None:
        content = described_by_weights(target, checkpoint)
        return Source(target, config_of_saved(target, content, options, scopes), saved=checkpoint)
    stem = Path(str(values.get('work_dir'))).name  # often that of the config, which is tried first
    try:
        config = Config(values, cfg_text=checkpoint.meta['cfg'], filename=f'{stem}.py')
        name, numbers = nearest_config(config)
        pipelines = (
            eval_dataset(each)['pipeline'] for each in (load_config(own_configs()[name]), config)
        )
        resizing = differences(*(dict(values_in(pipeline, PIPELINE)) for pipeline in pipelines))
    except (UserError, KeyError, AttributeError, TypeError):
        resizing = None
    if resizing is None:
        raise UserError(
            f'the config inside {target} differs from all of ours in more than numbers: '
            f'give its own config, as in CONFIG {target}'
        )
    for key, value in resizing.items():
        least = 1 if key.endswith(SIZES) else 0
        given = filter(is_number, value if isinstance(value, list) else [value])
        if not all(least <= each <= MAX_SIZE for each in given):
            raise UserError(f'{target}: {key} is {value!r:.80}; give {least} to {MAX_SIZE}')
    content = describe_config(name, numbers, checkpoint.dataset_meta)
    sizes = {key: tuple(v) if isinstance(v, list) else v for key, v in resizing.items()}
    opened = config_of_saved(target, content, {**sizes, **options}, scopes)
    return Source(target, opened, saved=checkpoint)


def is_folder(name: str) -> bool:
    """Whether a target is a saved model or a run.

    Other folders may have the name of a model, such as those of its runs.
    """
    return is_model(name) or (Path(name).is_dir() and name not in read_models())


def is_model(name: str) -> bool:
    """Whether a folder has a config and weights: a saved model, or a run."""
    return holds_model(name) or find_run(Path(name)) is not None


@dataclass(frozen=True)
class OpenModel:
    """A model of mmdet, mmseg or mmpretrain with its weights."""

    model: nn.Module  # in training mode
    config: Config
    checkpoint: Checkpoint | None  # None for initial weights
    dataset: BaseDataset | None  # of the test, not loaded

    @property
    def dataset_meta(self) -> dict[str, Any]:
        """Classes and palette of the checkpoint, else of the data."""
        saved = self.checkpoint.dataset_meta if self.checkpoint else {}
        return {**(getattr(self.dataset, 'metainfo', None) or {}), **saved}


def build_source(source: Source) -> OpenModel:
    """The model of a source, whose weights are not loaded or initialized yet, and its test data.

    Raises:
        UserError: If it cannot be built.
    """
    config = source.config
    with DefaultScope.overwrite_default_scope(config.default_scope), silenced():
        settings = eval_dataset(config)
        dataset = build_unread(settings) if settings else None
        model = build_model(own_model_config(config))
    return OpenModel(model, config, None, dataset)


def open_model(
    source: Source, checkpoint: Checkpoint | None, *, new_classes: bool = False
) -> OpenModel:
    """Build the model of a source and load a checkpoint; the default scope is unchanged.

    Args:
        source: See :func:`find_source`.
        checkpoint: See :meth:`Source.open_weights`; None leaves the initial weights.
        new_classes: Randomly initialize layers for another number of classes.

    Raises:
        UserError: If the model cannot be built.
        CheckpointError: If the weights do not fit.
    """
    opened = build_source(source)
    with DefaultScope.overwrite_default_scope(source.config.default_scope):
        if checkpoint is None:
            with silenced():
                opened.model.init_weights()
        else:
            with naming():
                report = load_into(opened.model, checkpoint, new_classes=new_classes)
            log_report(report)
    return replace(opened, checkpoint=checkpoint)
