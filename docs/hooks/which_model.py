"""The recommendations of "Which model?", and its plot of detectors for phones."""

import statistics

from matplotlib.figure import Figure

from benchmarks.alternatives import ENTRIES
from benchmarks.phones import DETECTORS
from benchmarks.store import read
from mmeffvit.analysis.figures import save_figure
from mmeffvit.zoo import find_model

from .tables import DOCS, MACHINE, config_link, millions, milliseconds, seconds, table

PAGE = DOCS / 'which_model.md'
PHONES = MACHINE.parent / 'amd_epyc_2_cores' / 'phones.json'
PLOT = DOCS / 'gallery' / 'phones.png'
# what to choose for: config or backbone, its command, and why
TAKE = {
    'your own objects, as boxes': (
        'rtmdet_swiftformer_xs',
        'mmeffvit train DATA',
        'measured from images to file: 56.3 box AP on BCCD in 20 CPU minutes',
    ),
    'your own regions, as label maps': (
        'segformer_swiftformer_xs_ade20k',
        'mmeffvit train DATA',
        'the fastest of our segmentors; SegFormer-B0 takes 190 ms',
    ),
    'a backbone for your own config, on a CPU': (
        'shvit_s4',
        "type='mmeffvit.SHViT', arch='s4'",
        'the fastest backbone at its accuracy; its latency grows slowly with image size',
    ),
}


def tables() -> str:
    return f'\n{recommendations()}\n'


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


def draw() -> None:
    """Whole detectors with NMS in the file, by runtime, on another machine than the table."""
    detectors = sorted(DETECTORS, key=lambda each: each.box_ap or 0)  # the best on top
    figure = Figure(figsize=(9, 5.2), layout='constrained')
    axes = figure.subplots()
    for number, (runtime, row) in enumerate(read(PHONES)['rows'].items()):
        times = {
            place: 1e3 * statistics.median(row['seconds'][each.name])
            for place, each in enumerate(detectors)
            if each.name in row['seconds']
        }
        axes.plot(times.values(), times.keys(), 'os^vD*X'[number], label=runtime)
    names = (f'{each.name}: {each.box_ap or "not trained"}' for each in detectors)
    axes.set_yticks(range(len(detectors)), names)
    for label, each in zip(axes.get_yticklabels(), detectors, strict=True):
        label.set_fontweight('bold' if each.package == 'mmeffvit' else 'normal')
    axes.set(xlabel='milliseconds per image, one thread', title='detector, pixels: box AP on COCO')
    axes.set_xscale('log')
    axes.set_xticks((5, 10, 20, 50, 100, 200), ('5', '10', '20', '50', '100', '200'))
    axes.grid(alpha=0.3)
    axes.legend(loc='lower right')
    save_figure(figure, PLOT)
