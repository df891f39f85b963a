"""Write a released detector, segmentor, classifier or backbone as a clean file of our layout."""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.zoo.convert import convert, convert_into, write

from .arguments import add_allow_non_finite, new_parser, output_file, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'convert mobilevitv2-1.0.pt mobilevitv2_100.safetensors')
    add = parser.add_argument
    add('source', help='a file, an address, or hf://OWNER/REPOSITORY')
    add('out', type=output_file, nargs='?', help='a .safetensors or .pth file')
    add('--dry-run', action='store_true', help='say what would become of it only')
    add('--averaged', action='store_true', help='take the EMA weights')
    add('--backbone-only', action='store_true', help='of a whole model, the backbone alone')
    add('--classifier', action='store_true', help='of a classifier, its head too')
    add('--into', metavar='BACKBONE', help='load into it, such as DeiTMobiAtt:t, and list tensors')
    add('--prefix', help='read only the keys that start so')
    add_allow_non_finite(parser)
    return parser


def run(
    source: str,
    out: Path | None,
    dry_run: bool,
    into: str | None,
    prefix: str | None,
    **values: Any,
) -> None:
    if out is None and not dry_run:
        raise UserError('give OUT, or --dry-run')
    if into is None:
        conversion = convert(source, prefix=prefix, **values)
    elif any(values.values()):
        raise UserError('--into does not go with --averaged and --backbone-only')
    else:
        conversion = convert_into(source, into, prefix=prefix)
    print(conversion)
    if not dry_run:
        write(conversion, out)
        print(f'  written to {out}')


main = partial(run_command, make_parser, run)
