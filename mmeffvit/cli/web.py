"""Write a page that runs an exported model in the browser, on pictures and the camera."""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path

from mmeffvit.deploy.web.page import write_page

from .arguments import new_parser, output_folder, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'web model.onnx page')
    add = parser.add_argument
    add('model', metavar='MODEL', help='.onnx, written by tools/export.py')
    add('out', type=output_folder, metavar='OUT_DIR', help='folder of the page')
    add(
        '--bundle',
        action='store_true',
        help='put the runtime into the folder, taken from the npm registry; by default the page '
        'loads it from a public CDN',
    )
    return parser


def run(model: str, out: Path, bundle: bool) -> None:
    print(write_page(model, out, bundle=bundle))


main = partial(run_command, make_parser, run)
