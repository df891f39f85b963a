"""What a user names, resolved once: a config, a run, a checkpoint or a saved model."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmeffvit.config.load import DENSE, open_config, own_configs
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints import Checkpoint, open_checkpoint
from mmeffvit.models.checkpoints.read import EXPORTED
from mmeffvit.models.checkpoints.sources import HUB_FILES
from mmeffvit.utils.images import SUFFIXES, VIDEOS

from .metafile import read_models, weights_of
from .nearest import config_inside
from .runs import best_checkpoint, config_of, work_dir_in
from .saved import CONFIG, HUB, described_by_weights, open_saved, read_saved

HANDLES = 'a config, the name of a model, a run folder, a checkpoint or a saved model'
CHECKPOINTS = ('.pth', '.pt', '.bin', '.ckpt', '.safetensors')
OTHERS = (*SUFFIXES, *VIDEOS, '.zip', '.tar', '.gz', '.txt', '.csv', '.log', '.md')


class Kind(Enum):
    """What a user can name."""

    CONFIG = 'the file of a config, or the name of one of ours'
    RUN = 'the work dir of a run'
    SAVED = 'a saved model: a folder, or a repository of the hub'
    CHECKPOINT = 'a checkpoint'
    EXPORTED = 'an exported file: see ExportedPredictor and `mmeffvit predict`'
    OTHER = 'neither a config nor a checkpoint'
    FOLDER = 'a folder without a run and without weights and config.json'
    NAME = 'a backbone, or nothing that is known'

    @property
    def has_weights(self) -> bool:
        """Whether it comes with weights for PyTorch."""
        return self in (Kind.RUN, Kind.SAVED, Kind.CHECKPOINT)


def classify(target: str) -> Kind:
    """The kind of what a user names.

    A folder with the name of a model is that model, unless it is a run or a saved model: runs may
    be named after their model.
    """
    path = Path(target)
    suffix = path.suffix.lower()
    if suffix in CHECKPOINTS:
        return Kind.CHECKPOINT
    is_saved = (path / CONFIG).is_file() and any((path / file).is_file() for file in HUB_FILES)
    if is_saved or target.startswith(HUB):
        return Kind.SAVED
    if suffix in EXPORTED:
        return Kind.EXPORTED
    if suffix in OTHERS:
        return Kind.OTHER
    if work_dir_in(path):
        return Kind.RUN
    if suffix == '.py' or path.is_file() or target in own_configs():
        return Kind.CONFIG
    return Kind.FOLDER if path.is_dir() and target not in read_models() else Kind.NAME


@dataclass(frozen=True)
class Source:
    """A config, and the weights that come with it."""

    target: str  # as the user gave it
    config: Config
    weights: Path | Checkpoint | None = None  # of a run, its work dir

    @cached_property
    def own(self) -> Checkpoint | None:
        """The weights of the saved model, or the best ones of the run."""
        if isinstance(self.weights, Path) and self.weights.is_dir():
            return best_checkpoint(self.weights)
        return self.weights and open_checkpoint(self.weights)

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
    kind = classify(target)
    if kind is Kind.RUN:
        run = work_dir_in(Path(target))
        return Source(target, open_config(config_of(run), options, scopes, named=False), run)
    if kind is Kind.SAVED:
        content, weights = read_saved(target)
        return Source(target, open_saved(target, content, options, scopes), weights)
    if kind is Kind.CHECKPOINT:
        return source_of_checkpoint(target, options, scopes)
    if kind in (Kind.EXPORTED, Kind.OTHER, Kind.FOLDER):
        what = f'is {kind.value}' if Path(target).exists() else 'does not exist'
        raise UserError(f'{target!r} {what}; give {HANDLES}')
    is_known = named or target in own_configs()
    return Source(target, open_config(target, options, scopes, named=is_known))


def source_of_checkpoint(
    target: str, options: Mapping[str, Any] | None, scopes: Collection[str]
) -> Source:
    """The config next to a checkpoint of a run, else the one inside, else its weights'."""
    folder = Path(target).parent
    if '://' not in target:
        if not Path(target).exists():
            raise UserError(f'{target!r} does not exist')
        if work_dir_in(folder) == folder:
            config = open_config(config_of(folder), options, scopes, named=False)
            return Source(target, config, Path(target))
    checkpoint = open_checkpoint(target)
    content = config_inside(checkpoint) or described_by_weights(target, checkpoint)
    return Source(target, open_saved(target, content, options, scopes), checkpoint)
