"""List models with their published accuracy, size and speed."""

from argparse import ArgumentParser
from glob import has_magic

from rich.console import Console
from rich.table import Table

from mmeffvit.errors import UserError
from mmeffvit.utils.text import counted, did_you_mean
from mmeffvit.zoo import Model, find_model, list_models
from mmeffvit.zoo.metafile import TASKS, read_models

from .arguments import new_parser

# shown per task; others are left to `mmeffvit.find_model(NAME)`
METRICS = ('Top 1 Accuracy', 'box AP', 'mask AP', 'mIoU')
WIDTH = 200  # characters of the table where there is no terminal
TIME = 'CPU Time (ms)'  # of the metadata: of an image of the input size, at batch size 1


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, "models 'ssdlite*' --released")
    add = parser.add_argument
    add('pattern', nargs='?', default='',
        help='part of a name, or a pattern such as "ssdlite*" (default: all)')  # fmt: skip
    add('--task', choices=list(TASKS.values()), help='models for one task only')
    add('--released', action='store_true', help='only models with released weights')
    return parser


def run(pattern: str, task: str | None, released: bool) -> None:
    wanted = pattern if has_magic(pattern) else f'*{pattern}*'
    names = list_models(wanted, task=task, pretrained=True if released else None)
    if not names:
        hint = did_you_mean(pattern.strip('*'), read_models())
        raise UserError(f'no model matches {pattern!r}; {hint or "`mmeffvit models` lists all"}')
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(make_table([find_model(name) for name in names]))
    console.print(
        f'{counted(len(names), "model")}; "released": `pretrained=True` downloads weights; '
        'accuracy in percent, as published; CPU ms: ONNX Runtime, one thread of an Intel Xeon'
    )


def make_table(models: list[Model]) -> Table:
    """One row per model."""
    table = Table(box=None, pad_edge=False, header_style='bold')
    table.add_column('name', no_wrap=True)
    for heading in ('task', 'data', 'accuracy'):
        table.add_column(heading)
    for heading in ('input', 'M params', 'G MACs', 'CPU ms'):
        table.add_column(heading, justify='right')
    table.add_column('weights')
    for model in models:
        table.add_row(*describe(model))
    return table


def describe(model: Model) -> tuple[str, ...]:
    """The cells of a model."""
    _, metrics = model.published()
    accuracy = ', '.join(f'{name} {metrics[name]:g}' for name in METRICS if name in metrics)
    return (
        model.name,
        model.tasks[-1],
        model.dataset,
        accuracy,
        'x'.join(map(str, model.input_size)),
        f'{model.parameters / 1e6:.1f}',
        f'{model.macs / 1e9:.2f}',
        f'{model.metadata[TIME]:g}' if TIME in model.metadata else '',
        'released' if model.weights else '',
    )
