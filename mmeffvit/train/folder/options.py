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

    Args:
        model: Name of one of our configs; None chooses a small one for the data.
        reading: Options for reading the dataset.
        overrides: Numbers that replace the recipe's.
        weights: See :func:`mmeffvit.train.folder.base.find_start`.
        amp: Mixed precision with a loss scale; None enables it on accelerators, unless steps are in
            bfloat16.
        resume: Continue the run in the work dir, from a checkpoint or 'auto' for its latest; other
            options must match the run, except for the number of epochs.
        export: Suffixes of the files to export; None for ONNX, if its packages are installed.
        int8: Also write a file in int8, see :func:`mmeffvit.deploy.int8.quantize.quantize`.
        seed: Random seed of the validation split and of training; None for 0, or the seed of
            a resumed run.
        reader: Reads the dataset; by default the reader of its format.
        teaching: Distillation settings of a student.
    """

    model: str | None = None
    reading: PrepareOptions = field(default_factory=PrepareOptions)
    overrides: Overrides = field(default_factory=Overrides)
    weights: str = AUTO
    amp: bool | None = None
    resume: str | None = None
    export: Sequence[str] | None = None
    int8: bool = False
    verbose: bool = False
    reader: Reader | None = None
    teaching: Teaching | None = None
