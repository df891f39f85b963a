"""The tables of "Tables of the papers": a row of a paper, its command, and our counts."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from mmeffvit.config.load import load_config
from mmeffvit.zoo import Model, read_models
from mmeffvit.zoo.metafile import OURS, ZOO

from .tables import DOCS, billions, millions, numbers, table

PAGE = DOCS / 'papers.md'
HEADING = ('model', 'published, %', 'command', 'parameters:', 'MACs:', 'image')
PAPERS = {  # how sources of the metafile begin: title and address
    'arXiv:2303.15446': ('SwiftFormer', 'https://arxiv.org/abs/2303.15446'),
    'arXiv:2401.16456': ('SHViT', 'https://arxiv.org/abs/2401.16456'),
    'arXiv:2206.02680': ('MobileViTv2', 'https://arxiv.org/abs/2206.02680'),
    'Mobile Attention (ICML 2024)': (
        'Mobile-Attention', 'https://proceedings.mlr.press/v235/yao24c.html',
    ),
    ZOO: ("Authors' model zoos", ''),
}  # fmt: skip


def tables() -> str:
    by_source = sources(read_models().values())
    return (
        ''.join(
            section(paper, {s: rows for s, rows in by_source.items() if s.startswith(paper)})
            for paper in PAPERS
        )
        + '\n'
    )


def sources(models: Iterable[Model]) -> dict[str, list[tuple[Model, Mapping[str, float]]]]:
    """Models with a config and what a source publishes of them, by source."""
    found: dict[str, list[tuple[Model, Mapping[str, float]]]] = {}
    for model in models:
        for source, metrics in model.metrics_by_source().items():
            if model.config and source != OURS:
                found.setdefault(source, []).append((model, metrics))
    return dict(sorted(found.items(), key=lambda item: order(item[0])))


def order(source: str) -> tuple[str | int, ...]:
    """Tables of a paper by number."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r'(\d+)', source))


def section(paper: str, by_source: Mapping[str, list[tuple[Model, Mapping[str, float]]]]) -> str:
    title, address = PAPERS[paper]
    lines = f'\n## {title}\n' + (f'\n[{paper}]({address})\n' if address else '')
    for source, found in by_source.items():
        name = source.removeprefix(paper).strip()
        lines += f'\n### {title}, {name}\n' if name else ''
        lines += '\n' + table(HEADING, rows(found))
    return lines


def rows(found: Iterable[tuple[Model, Mapping[str, float]]]) -> Iterator[tuple[str, ...]]:
    for model, metrics in found:
        height, width = model.input_size
        yield (
            ', '.join(model.architecture),
            numbers(metrics),
            f'`mmeffvit {command(model)}`',
            millions(model.parameters),
            billions(model.macs),
            f'{height} x {width}',
        )


def command(model: Model) -> str:
    """Test the released weights, or train in as many processes as the recipe's batch size needs."""
    if model.weights:
        return f'test {model.name}'
    return f'train {model.name} --processes {processes(model)}'


@cache
def per_process(config: Path) -> int:
    """Images in a batch of one process."""
    return load_config(config).train_dataloader.batch_size


def processes(model: Model) -> int:
    return model.metadata['Batch Size'] // per_process(model.config)
