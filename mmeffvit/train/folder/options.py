"""Options of a run on a dataset."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mmeffvit.data.prepare import PrepareOptions, Reader
from mmeffvit.train.engine.options import RunOptions

from .base import AUTO
from .recipe import Overrides
from .write_config import Teaching


@dataclass
class FinetuneOptions(RunOptions):
    """Options of a fine-tuning run, whose ``work_dir`` also gets the config, index and results.

    The seed is of the validation split, too; None for 0, or for the one of a resumed run.
    """

    model: str | None = None  # name of one of our configs; None chooses a small one for the data
    reading: PrepareOptions = field(default_factory=PrepareOptions)
    overrides: Overrides = field(default_factory=Overrides)
    weights: str = AUTO  # see ``find_start``
    # mixed precision with a loss scale; None enables it on accelerators, unless in bfloat16
    amp: bool | None = None
    # continue the run in the work dir, from a checkpoint or 'auto' for its latest; other options
    # must match the run, except for the number of epochs
    resume: str | None = None
    # suffixes of the files to export; None for ONNX, if its packages are installed
    export: Sequence[str] | None = None
    int8: bool = False  # also write a file in int8
    verbose: bool = False
    reader: Reader | None = None  # by default the reader of the format
    teaching: Teaching | None = None
