"""The tables of "Released models", from the metafile."""

from itertools import groupby

from mmeffvit.zoo import Model, read_models

from .results import HEADS
from .tables import DOCS, config_link, millions, numbers, table, web_address

PAGE = DOCS / 'models.md'
HEADING = ('name', 'data', 'published, %', 'source', 'parameters:', 'weights and their license')


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
    return (
        config_link(model, PAGE) if model.config else model.name,
        model.dataset,
        numbers(metrics),
        source,
        millions(model.parameters),
        f'[{model.weights_layout}]({web_address(model.weights)}), '
        f'[{model.license["Name"]}]({model.license["URL"]})',
    )
