"""Measure the speed of a model in every installed runtime."""

import json
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmeffvit.analysis.profile import draw_profile
from mmeffvit.deploy.export import ToolOptions
from mmeffvit.deploy.formats.table import BY_SUFFIX, OPENED
from mmeffvit.deploy.profile.run import ProfileOptions, profile_file, profile_model, write_best
from mmeffvit.deploy.profile.worker import CLOCKS
from mmeffvit.errors import UserError
from mmeffvit.inference.predictor import Predictor
from mmeffvit.utils.files import check_output, write_file

from .arguments import MODEL, add_checkpoint, add_config, add_verbose, new_parser, output_file, take
from .console import working
from .export import add_graph_options


def make_parser() -> ArgumentParser:
    parser = new_parser(
        __doc__, 'profile configs/retinanet_shvit_s4.py epoch_12.pth --images val2017 --write fast'
    )
    add = parser.add_argument
    add_config(parser, f'{MODEL}; or exported file ({", ".join(OPENED)})')
    add_checkpoint(parser)
    add_graph_options(parser, 'size of the image')
    add('--images', type=Path, metavar='FOLDER', help='calibration images: also measure int8')
    # fmt: off
    add('--score-thr', type=float, default=0.3, metavar='SCORE',
        help='score threshold of compared objects of int8 files (default: %(default)s)')
    add('--formats', nargs='+', choices=OPENED, metavar='SUFFIX', help='formats (default: all)')
    add('--threads', type=int, nargs='+', metavar='N',
        help='numbers of threads (default: powers of two up to the number of cores)')
    add('--seconds', type=float, default=1.0,
        help='seconds per file; about three times as long for the fastest (default: %(default)s)')
    add('--device', default='auto',
        help='cpu, cuda, cuda:N, or auto for the CPU and a GPU if there is one (default: auto)')
    add('--clock', choices=CLOCKS, default='wall',
        help='wall clock, or CPU time for one thread on a busy machine (default: wall)')
    add('--json', type=output_file, metavar='FILE', dest='numbers',
        help='save all numbers to this file')
    add('--out', type=output_file, metavar='FILE.png', help='plot the results')
    add('--write', type=output_file, metavar='FILE',
        help='save the fastest exported file; its suffix may be omitted')
    # fmt: on
    add_verbose(parser)
    return parser


def run(
    config: str,
    checkpoint: str | None,
    numbers: Path | None,
    out: Path | None,
    write: Path | None,
    verbose: bool,
    cfg_options: dict[str, Any],
    **values: Any,
) -> None:
    export = ToolOptions(**take(values, ToolOptions))
    options = ProfileOptions(**take(values, ProfileOptions))
    inputs = [Path(name) for name in (config, checkpoint) if name]
    check_outputs(numbers, out, write, options.formats, inputs)
    path = Path(config)
    is_exported = path.suffix in BY_SUFFIX
    if is_exported and (checkpoint or export.backbone_only or cfg_options):
        raise UserError(
            f'{config} is an exported file, for which there is no checkpoint, --backbone-only or '
            '--cfg-options'
        )
    with tempfile.TemporaryDirectory() as folder:
        with working(f'exporting {config}', verbose=verbose):
            if is_exported:
                result = profile_file(path, Path(folder), export, options)
            else:
                model = Predictor(config, checkpoint, device='cpu', cfg_options=cfg_options)
                result = profile_model(model, Path(folder), export, options)
        print(result)
        if numbers:
            write_file(numbers, json.dumps(result.as_dict(), indent=1) + '\n')
        if out:
            draw_profile(result.as_dict(), out)
        if write:
            print(f'written: {write_best(result, write)}')


def check_outputs(
    numbers: Path | None,
    out: Path | None,
    write: Path | None,
    formats: Sequence[str],
    inputs: Sequence[Path],
) -> None:
    """Check in advance that the files can be written and replace none that is profiled."""
    if out and out.suffix != '.png':
        raise UserError(f'--out {str(out)!r} must end in .png')
    if write and write.suffix not in ('', *OPENED):
        raise UserError(
            f'--write {str(write)!r} ends in {write.suffix!r}; leave the suffix out, or choose '
            f'from {", ".join(OPENED)}'
        )
    suffixes = [write.suffix] if write and write.suffix else formats
    written = [check_output(write.with_suffix(suffix)) for suffix in suffixes if write]
    for path in filter(None, (numbers, out, *written)):
        if any(path.exists() and each.exists() and path.samefile(each) for each in inputs):
            raise UserError(f'{str(path)!r} would be overwritten, but is profiled: choose another '
                            'name for the output')  # fmt: skip
