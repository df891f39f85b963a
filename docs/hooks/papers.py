"""The commands of "Tables of the papers": the rows of every table, with what is published."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from mmeffvit.config.load import load_config
from mmeffvit.zoo import Model, read_models
from mmeffvit.zoo.metafile import OURS, ZOO

from .tables import DOCS, numbers

PAGE = DOCS / 'papers.md'
PAPERS = {  # how sources of the metafile begin: title and address
    'arXiv:2303.15446': ('SwiftFormer', 'https://arxiv.org/abs/2303.15446'),
    'arXiv:2401.16456': ('SHViT', 'https://arxiv.org/abs/2401.16456'),
    'arXiv:2206.02680': ('MobileViTv2', 'https://arxiv.org/abs/2206.02680'),
    'Mobile Attention (ICML 2024)': (
        'Mobile-Attention', 'https://proceedings.mlr.press/v235/yao24c.html',
    ),
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
            if model.config and source not in (OURS, ZOO):
                found.setdefault(source, []).append((model, metrics))
    return dict(sorted(found.items(), key=lambda item: order(item[0])))


def order(source: str) -> tuple[str | int, ...]:
    """Tables of a paper by number."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r'(\d+)', source))


def section(paper: str, by_source: Mapping[str, list[tuple[Model, Mapping[str, float]]]]) -> str:
    title, address = PAPERS[paper]
    lines = f'\n## {title}\n\n[{paper}]({address})\n'
    for source, found in by_source.items():
        lines += f'\n### {title}, {source.removeprefix(paper).strip()}\n\n```bash\n'
        lines += ''.join(rows(found)) + '```\n'
    return lines


def rows(found: Iterable[tuple[Model, Mapping[str, float]]]) -> Iterator[str]:
    """The command of a row, and what the paper publishes of it, in percent."""
    for model, metrics in found:
        yield f'mmeffvit {command(model)}  # {numbers(metrics)}\n'


def command(model: Model) -> str:
    """Test the released weights, or train in as many processes as the recipe's batch size needs."""
    if model.weights:
        return f'test {model.name}'
    return f'train {model.name} --nproc-per-node {processes(model)}'


@cache
def per_process(config: Path) -> int:
    """Images in a batch of one process."""
    return load_config(config).train_dataloader.batch_size


def processes(model: Model) -> int:
    return model.metadata['Batch Size'] // per_process(model.config)
