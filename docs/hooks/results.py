"""Write the tables of ``docs/results.md`` from the metafile: ``python docs/hooks/results.py``."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from mmeffvit.zoo import Model, read_models
from mmeffvit.zoo.metafile import OURS

PAGE = Path(__file__).resolve().parents[1] / 'results.md'
START, END = '<!-- made from the metafile -->\n', '<!-- end -->\n'
HEADS = (
    'Mask R-CNN', 'RetinaNet', 'SSDLite', 'Deformable DETR', 'RTMDet', 'PSPNet', 'DeepLabv3',
    'Semantic FPN', "SegFormer's decoder", 'Classifier',
)  # fmt: skip
HEADING = ('config', 'model', 'schedule', 'parameters', 'multiply-adds', 'published', 'by', 'ours')


def write_page() -> None:
    PAGE.write_text(with_tables(PAGE.read_text(), tables()))


def with_tables(page: str, current: str) -> str:
    """The page with the current tables between its two markers."""
    before, rest = page.split(START)
    return before + START + current + END + rest.split(END)[1]


def tables() -> str:
    configs = [model for model in read_models().values() if model.config]
    configs.sort(key=lambda model: HEADS.index(model.architecture[0]))
    sections = groupby(configs, key=lambda model: model.architecture[0])
    return (
        ''.join(f'\n## {head}\n\n{table(HEADING, map(row, models))}' for head, models in sections)
        + '\n'
    )


def table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heading, ('---',) * len(heading), *rows]
    return ''.join(f'| {" | ".join(cells)} |\n' for cells in lines)


def row(model: Model) -> tuple[str, ...]:
    by_source = model.metrics_by_source()
    ours = by_source.pop(OURS, {})
    sources = [*by_source]
    if model.weights:
        sources[-1] += f' ([weights]({link(model.weights)}))'
    height, width = model.input_size
    return (
        f'[{model.name}](../configs/{model.name}.py)',
        ', '.join(model.architecture[1:]) + needs(model),
        schedule(model.metadata),
        f'{model.parameters / 1e6:.2f} M',
        f'{model.macs / 1e9:.2f} G at {height} x {width}',
        '<br>'.join(map(numbers, by_source.values())),
        '<br>'.join(sources),
        numbers(ours),
    )


def needs(model: Model) -> str:
    package = model.metadata.get('Requires')
    return f' (needs {package})' if package else ''


def link(address: str) -> str:
    return address.replace('hf://', 'https://huggingface.co/')


def schedule(metadata: Mapping[str, int | str]) -> str:
    if 'Epochs' in metadata:
        length = f'{metadata["Epochs"]} epochs'
    else:
        length = f'{metadata["Iterations"] // 1000}K iterations'
    return f'{length} on {metadata["Training Data"]}, batch size {metadata["Batch Size"]}'


def numbers(metrics: Mapping[str, float]) -> str:
    """``38.8 box AP (AP50 59.8, AP75 41.1)``: submetrics follow their metric in parentheses."""
    shown: dict[str, list[str]] = {}
    for name, value in metrics.items():
        main = re.match(r'(box AP|mask AP|.+)', name)[1]
        if name == main:
            shown[name] = []
        else:
            shown[main].append(f'{name.removeprefix(main[:-2])} {value}')
    return ', '.join(
        f'{metrics[name]} {name}' + (f' ({", ".join(more)})' if more else '')
        for name, more in shown.items()
    )


if __name__ == '__main__':
    write_page()
