"""Download released weights for a machine without a network.

On that machine, set MMEFFVIT_WEIGHTS to a copy of the folder.
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from glob import has_magic
from pathlib import Path

from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.download import FOLDER
from mmeffvit.models.checkpoints.sources import copy_into
from mmeffvit.zoo import find_model, list_models

from .arguments import new_parser, output_folder


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, "download 'ssdlite_*' shvit_s4 --out-dir weights")
    add = parser.add_argument
    add('names', nargs='+', metavar='NAME',
        help='name of a model, quoted pattern of names, or URL: http(s)://... or '
             'hf://OWNER/REPOSITORY[/FILE]; `mmeffvit models --released` lists models')  # fmt: skip
    add('--out-dir', type=output_folder, required=True, metavar='DIR', help='output folder')
    return parser


def run(names: Sequence[str], out_dir: Path) -> None:
    for address in dict.fromkeys(address for name in names for address in addresses(name)):
        print(copy_into(out_dir, address))
    print(f'on the other machine: {FOLDER}=DIR, with a copy of {out_dir} as DIR')


def addresses(name: str) -> list[str]:
    """The URLs of the weights of a model, a pattern of models, or a URL itself."""
    if '://' in name:
        return [name]
    models = list_models(name) if has_magic(name) else []
    found = [find_model(model).weights for model in models or [name]]
    if not any(found):
        raise UserError(
            f'no weights are released for {name}; `mmeffvit models --released` lists models'
        )
    return [address for address in found if address]
