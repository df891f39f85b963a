"""The table of "Which model?": our recommendations."""

from benchmarks.alternatives import ENTRIES
from mmeffvit.zoo import find_model

from .tables import DOCS, config_link, millions, milliseconds, seconds, table

PAGE = DOCS / 'which_model.md'
# what to choose for: config or backbone, its command, and why
TAKE = {
    'your own objects, as boxes': (
        'rtmdet_swiftformer_xs',
        'mmeffvit train DATA',
        'measured from images to file: 56.3 box AP on BCCD in 26 CPU minutes',
    ),
    'your own regions, as label maps': (
        'segformer_swiftformer_xs_ade20k',
        'mmeffvit train DATA',
        '1.8 times as fast as SegFormer-B0 (190 ms)',
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
