"""Write the tables of ``docs/models.md`` from the metafile: ``python docs/hooks/models.py``."""

from itertools import groupby
from pathlib import Path

from docs.hooks.results import HEADS, link, numbers, table, with_tables
from mmeffvit.zoo import Model, read_models

PAGE = Path(__file__).resolve().parents[1] / 'models.md'
HEADING = ('name', 'model', 'data', 'parameters', 'published', 'by', 'weights')


def write_page() -> None:
    PAGE.write_text(with_tables(PAGE.read_text(), tables()))


def tables() -> str:
    released = [model for model in read_models().values() if model.weights]
    whole = [model for model in released if model.config]
    whole.sort(key=lambda model: HEADS.index(model.architecture[0]))
    sections = [(head, list(models)) for head, models in groupby(whole, head_of)]
    sections.append(('Backbones', [model for model in released if not model.config]))
    return ''.join(section(title, models) for title, models in sections) + '\n'


def head_of(model: Model) -> str:
    return model.architecture[0]


def section(title: str, models: list[Model]) -> str:
    first = models[0].name
    line = f"mmeffvit.Predictor('{first}')('photo.jpg', out_dir='out')"
    if models[0].config is None or 'classification' in models[0].tasks:
        line = f"mmeffvit.get_model('{first}', pretrained=True)"
    return f'\n## {title}\n\n```python\n{line}\n```\n\n{table(HEADING, map(row, models))}'


def row(model: Model) -> tuple[str, ...]:
    source, metrics = model.published(of_weights=True)
    page = f'[{model.name}](../configs/{model.name}.py)' if model.config else model.name
    return (
        page,
        model.architecture[-1],
        model.dataset,
        f'{model.parameters / 1e6:.2f} M',
        numbers(metrics),
        source,
        f'[{model.weights_layout}]({link(model.weights)}), '
        f'[{model.license["Name"]}]({model.license["URL"]})',
    )


if __name__ == '__main__':
    write_page()
