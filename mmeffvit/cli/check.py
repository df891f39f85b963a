"""Find errors in a config and its datasets, or in your own dataset, before training.

The model of a config is trained for one step on noise. All annotations are read, and some images
are opened. Exit code: 0 without errors, 1 with errors, 2 if TARGET cannot be read.
"""

import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmeffvit.config.datasets import SPLITS
from mmeffvit.config.load import ALL, DENSE, open_config
from mmeffvit.data.check import check as check_images
from mmeffvit.data.detect import FORMATS
from mmeffvit.data.files import Sample
from mmeffvit.data.prepare import PrepareOptions, check_trainable, read, summary
from mmeffvit.data.records import DataSet
from mmeffvit.errors import UserError
from mmeffvit.train.checks.config import check_config, count_faults, faults_in
from mmeffvit.train.checks.data import check_dataset
from mmeffvit.train.checks.findings import Kind
from mmeffvit.utils.text import counted

from .arguments import CONFIG, add_cfg_options, add_folders, find_data, new_parser, reject, take

OF_DATA = ('format', 'images', 'masks')
OF_CONFIG = ('no_data', 'no_model', 'cfg_options', 'splits', 'num_images', 'all', 'seed')


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'check configs/maskrcnn_swiftformer_l1.py --all')
    add = parser.add_argument
    add('target', metavar='TARGET', help=f'{CONFIG}; or a dataset: folder, data.yaml or JSON file')
    add_cfg_options(parser)
    add('--no-data', action='store_true', help='check only the config')
    add('--no-model', action='store_true', help='check only the datasets')
    add('--splits', nargs='+', choices=SPLITS, default=SPLITS, help='splits to check')
    add('--num-images', type=int, default=50, metavar='N',
        help='number of images to open per dataset (default: %(default)s)')  # fmt: skip
    add('--all', action='store_true', help='open every image')
    add('--seed', type=int, default=0, help='random seed for selecting images')
    add('--verbose', action='store_true', help='list all classes, even if there are many')
    add('--format', choices=FORMATS, help='format of the dataset (default: detected)')
    add('--strict', action='store_true', help='treat warnings as errors')
    add_folders(parser)
    return parser


def run(target: str, verbose: bool, **values: Any) -> int:
    parser = make_parser()
    is_data, found = find_data(target, values)
    if is_data:
        reject(parser, values, OF_CONFIG, f'{target} is a dataset', 'all of its images are checked')
        options = PrepareOptions(**take(values, PrepareOptions), found=found)
        return check_own_data(Path(target), options, verbose)
    reject(parser, values, OF_DATA, f'{target} is a config', 'it names its formats')
    if values['no_data'] and values['no_model']:
        raise UserError('--no-data and --no-model leave nothing to check: give one of them')
    if values['num_images'] < 0:
        raise UserError(f'--num-images is {values["num_images"]}; give 0 or more')
    sample = Sample(None if values['all'] else values['num_images'], values['seed'])
    config = open_config(target, values['cfg_options'], DENSE if values['no_model'] else ALL)
    faults = '' if values['no_model'] else check_model(target, config)
    if values['no_data']:
        return 1 if faults else 0
    if config.default_scope not in DENSE:
        print(f'not checked: the datasets, which are of {config.default_scope}')
        return 1 if faults else 0
    name = f'{target}: {faults}, see above; its datasets' if faults else f'datasets of {target}'
    code = check_data_of(name, config, values['splits'], sample, verbose, values['strict'])
    return 1 if faults else code


def check_model(name: str, config: Config) -> str:
    """Print the findings in a config, errors last, and return the number of errors in words."""
    start = time.monotonic()
    findings = check_config(config)
    order = list(Kind)
    for finding in sorted(findings, key=lambda finding: order.index(finding.kind)):
        print(finding)
    faults = faults_in(findings)
    print(f'{name}: {count_faults(faults)}, checked in {time.monotonic() - start:.1f} s\n')
    return count_faults(faults) if faults else ''


def check_data_of(
    name: str, config: Config, splits: Sequence[str], sample: Sample, verbose: bool, strict: bool
) -> int:
    """Print the findings in the datasets of a config."""
    sets = check_dataset(config, tuple(splits), sample)
    found = []
    for data in sets:
        data.findings.strict = strict
        opened = len(sample.choose(data.splits[next(iter(data.splits))]))
        print(f'{data.findings.name}: {data.findings.source}, {counted(opened, "image")} opened')
        found += show(data, verbose)
        print()
    print(f'{name}: ' + ('; '.join(found) or 'nothing is broken'))
    return 1 if found else 0


def check_own_data(path: Path, options: PrepareOptions, verbose: bool) -> int:
    """Print the findings in a dataset that `mmeffvit train` would be given."""
    data = read(path, options)
    data.findings.strict = options.strict
    check_images(data)
    print(f'{data.root}: {data.format}, {counted(len(data.classes), "class")}')
    found = show(data, verbose)
    if not found:
        check_trainable(data)
    print(f'\n{path}: ' + ('; '.join(found) or 'nothing is broken'))
    return 1 if found else 0


def show(data: DataSet, verbose: bool) -> list[str]:
    """Print the findings and the counts of a dataset, and return its errors with their number."""
    if data.findings.counts:
        print(data.findings.describe())
    if ignored := data.findings.ignored():
        print(f'ignored: {ignored}')
    print(*summary(data, all_classes=verbose), sep='\n')
    return [data.findings.named(fault) for fault in data.findings.faults]
