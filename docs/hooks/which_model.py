"""The tables of "Which model?": published accuracy and measured CPU time, ours and others'."""

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.alternatives import ENTRIES, METRICS, Entry, pareto, points_of
from benchmarks.phones import DETECTORS
from benchmarks.store import read
from mmeffvit.zoo import find_model

from .families import top1
from .tables import DOCS, MACHINE, config_link, millions, milliseconds, seconds, table

PAGE = DOCS / 'which_model.md'
PHONES = MACHINE.parent / 'amd_epyc_2_cores' / 'phones.json'
SIZES = ('224 or 256', '512 x 512', '800 x 1344')  # of measured images, in this order
# what to choose for: config or backbone, its command, and why
TAKE = {
    'your own objects, as boxes': (
        'rtmdet_swiftformer_xs',
        'mmeffvit train DATA',
        'measured from images to file: 64.8 box AP on generated shapes in nine minutes',
    ),
    'your own regions, as label maps': (
        'segformer_swiftformer_xs_ade20k',
        'mmeffvit train DATA',
        'the fastest segmentor in the table below',
    ),
    'a backbone for your own config, on a CPU': (
        'shvit_s4',
        "type='mmeffvit.SHViT', arch='s4'",
        'the fastest backbone at its accuracy; its latency grows slowly with image size',
    ),
}


def tables() -> str:
    rows = seconds('alternatives')
    return ''.join(
        [
            '\n',
            recommendations(),
            '\n## Small detectors, COCO\n\n',
            ranked('detection', rows['detection']),
            '\n## Detectors for phones and boards, COCO\n\n',
            phones(),
            '\n## Small segmentors, ADE20K\n\n',
            ranked('segmentation', rows['segmentation']),
            '\n## Backbones\n\n',
            backbones(),
            '\n',
        ]
    )


def recommendations() -> str:
    """A table of what we recommend, with parameters and CPU time."""
    rows = []
    for purpose, (name, command, reason) in TAKE.items():
        model = find_model(name)
        shown = config_link(model, PAGE) if model.config else f'[{name}](backbones/shvit.md)'
        rows.append(
            (purpose, shown, f'`{command}`', millions(model.parameters), *cpu(name), reason)
        )
    return table(('task', 'model', 'command', 'parameters:', 'CPU, ms:', 'image', 'why'), rows)


def cpu(name: str) -> tuple[str, str]:
    """Milliseconds of a config's network, or of a backbone, and the size of its images."""
    for task, row in seconds('alternatives').items():
        for entry in ENTRIES[task]:
            if entry.name == name:
                return milliseconds(row['seconds'][name]), '{} x {}'.format(*entry.size)
    row = max(
        (row for row in seconds('deployed').values() if row['model'] == name),
        key=lambda row: row['size'],
    )
    return milliseconds(row['seconds']['ours ONNX']), '{} x {}'.format(*row['size'])


def ranked(task: str, measured: Mapping[str, Any]) -> str:
    """The models of a task by published accuracy; those without one at the end."""
    metric, dataset = METRICS[task]
    front = pareto(points_of(task, measured))
    entries = [entry for entry in ENTRIES[task] if is_comparable(entry, measured, dataset)]
    entries.sort(key=lambda entry: -accuracy(entry, measured)[0])
    rows = []
    for entry in entries:
        value, source = accuracy(entry, measured)
        rows.append(
            (
                f'**{title(entry)}**' if entry.is_ours else entry.title,
                entry.package,
                f'{value:.1f}' if value else '',
                milliseconds(measured['seconds'][entry.name]),
                '{} x {}'.format(*entry.size),
                'yes' if entry.name in front else '',
                weights(entry),
                source,
            )
        )
    heading = ('model', 'package', f'{metric}:', 'CPU, ms:', 'image', 'best trade-off', 'weights')
    return table((*heading, 'source of the accuracy'), rows)


def phones() -> str:
    """Whole detectors with NMS in the file, by runtime, on another machine."""
    rows = read(PHONES)['rows']
    lines = []
    for each in sorted(DETECTORS, key=lambda each: -(each.box_ap or 0)):
        times = [row['seconds'].get(each.name) for row in rows.values()]
        lines.append(
            (
                f'**{each.name}**' if each.package == 'mmeffvit' else each.name,
                each.package,
                f'{each.box_ap:.1f}' if each.box_ap else '',
                *(milliseconds(samples) if samples else '' for samples in times),
            )
        )
    return table(('model, pixels', 'package', 'box AP:', *(f'{name}:' for name in rows)), lines)


def is_comparable(entry: Entry, measured: Mapping[str, Any], dataset: str) -> bool:
    """Whether its accuracy, if it has one, is on the dataset of the table."""
    known = measured['accuracy'][entry.name]
    return known is None or known[1] == dataset


def accuracy(entry: Entry, measured: Mapping[str, Any]) -> tuple[float, str]:
    known = measured['accuracy'][entry.name]
    return (known[0], known[2]) if known else (0.0, '')


def title(entry: Entry) -> str:
    return config_link(find_model(entry.name), PAGE)


def weights(entry: Entry) -> str:
    """Whether there are trained weights to load."""
    if not entry.is_ours or find_model(entry.name).weights:
        return 'released'
    return 'of the backbone'


def backbones() -> str:
    """Every measured backbone: accuracy and time at three sizes, and as an int8 file."""
    deployed, choice = seconds('deployed'), seconds('choice')
    names = dict.fromkeys(row['model'] for row in deployed.values())
    rows = []
    for name in sorted(names, key=lambda name: -top1(find_model(name))):
        model = find_model(name)
        found = sorted(
            (row for row in deployed.values() if row['model'] == name), key=lambda row: row['size']
        )
        times = [milliseconds(row['seconds']['ours ONNX']) for row in found]
        rows.append(
            (name, millions(model.parameters), f'{top1(model):.1f}', *times, fastest(name, choice))
        )
    heading = ('backbone', 'parameters:', 'top-1:', *(f'{size}, ms:' for size in SIZES))
    return table((*heading, 'fastest file at 224 or 256, ms'), rows)


def fastest(name: str, choice: Mapping[str, Mapping[str, Any]]) -> str:
    """The fastest file that the profiler measured for a backbone."""
    (found,) = (row for key, row in choice.items() if key.startswith(f'{name} '))
    times = {file: statistics.median(values) for file, values in found['seconds'].items()}
    best = min(times, key=times.__getitem__)
    return f'{milliseconds(found["seconds"][best])}, {best}'
