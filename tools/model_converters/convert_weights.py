#!/usr/bin/env python
"""Convert released weights of a backbone, classifier, detector or segmentor to our keys."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.cli.arguments import add_allow_non_finite, new_parser, output_file, run_tool
from mmeffvit.errors import UserError
from mmeffvit.zoo.convert import convert, convert_into, write


def make_parser() -> ArgumentParser:
    parser = new_parser(
        __doc__, 'convert_weights.py mobilevitv2-1.0.pt mobilevitv2_100.safetensors', ''
    )
    add = parser.add_argument
    add('source', help='checkpoint: file, URL, or hf://OWNER/REPOSITORY')
    add('out', type=output_file, nargs='?', help='output file: .safetensors or .pth')
    add('--dry-run', action='store_true', help='show what would be converted, write nothing')
    add('--use-ema', dest='averaged', action='store_true', help='use the EMA weights')
    add('--backbone-only', action='store_true', help='keep only the backbone of a full model')
    add('--classifier', action='store_true', help='keep the head of a classifier')
    add('--into', metavar='BACKBONE',
        help='load into this backbone, such as DeiTMobiAtt:t, and list all tensors')  # fmt: skip
    add('--prefix', help='use only keys with this prefix')
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
        raise UserError('--into does not go with --use-ema, --backbone-only and --classifier')
    else:
        conversion = convert_into(source, into, prefix=prefix)
        print(conversion.report.by_tensor())
    print(conversion if into is None else conversion.report)
    if not dry_run:
        write(conversion, out)
        print(f'  written to {out}')


if __name__ == '__main__':
    run_tool(sys.modules[__name__])
