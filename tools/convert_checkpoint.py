#!/usr/bin/env python
"""Write official or timm weights of a backbone as a clean file of our own layout."""

import argparse
from pathlib import Path

from arguments import add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.zoo.convert import convert, write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('source', help='a file, an address, or hf://OWNER/REPOSITORY')
    parser.add_argument('out', type=Path, nargs='?', help='a .safetensors or .pth file')
    parser.add_argument('--dry-run', action='store_true', help='say what would become of it only')
    parser.add_argument('--averaged', action='store_true', help='take the moving average (EMA)')
    parser.add_argument('--prefix', help='read only the keys that start so')
    add_debug(parser)
    args = parser.parse_args()
    if args.out is None and not args.dry_run:
        parser.error('give OUT, or --dry-run')
    with exit_with_message(args.debug):
        conversion = convert(args.source, averaged=args.averaged, prefix=args.prefix)
        print(conversion)
        if not args.dry_run:
            write(conversion, args.out)
            print(f'  written to {args.out}')


if __name__ == '__main__':
    main()
