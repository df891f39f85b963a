"""Model cards."""

from collections.abc import Mapping, Sequence

import yaml

from .metafile import Model

# the hub's names of tasks
PIPELINES = {
    'classification': 'image-feature-extraction',
    'detection': 'object-detection',
    'instance segmentation': 'image-segmentation',
    'segmentation': 'image-segmentation',
}
CARD = """---
{facts}---

# {name}

{architecture} for {tasks}, a model of mmeffvit.
{picture}
```python
import mmeffvit

model = mmeffvit.get_model('FOLDER')  # or 'hf://OWNER/NAME'
```

| | |
|---|---|
{rows}
"""


def model_card(
    model: Model,
    classes: Sequence[str],
    metrics: Mapping[str, float],
    license: str | None,
    picture: str | None,
) -> str:
    """The card of a model, with its own metrics in percent and those that its authors published.

    ``license`` is the weights' license, None for the released weights'; ``picture`` is the file
    name of an image next to the card.
    """
    source, published = model.published(of_weights=True)
    released = 'not stated'
    if model.license is not None:
        link = f'[{model.license["Name"]}]({model.license["URL"]})'
        released = f'the license of the released weights: {link}'
    pipeline = PIPELINES[model.tasks[0]]
    if model.config is not None and 'classification' in model.tasks:
        pipeline = 'image-classification'
    rows = [
        ('data of the config', model.dataset),
        ('classes', f'{len(classes)}: {", ".join(classes)}' if classes else ''),
        ('parameters of the config', f'{model.parameters:,}'),
        ('reached by these weights', numbers(metrics)),
        (
            'published for the released weights',
            f'{numbers(published)} ({source})' if source else '',
        ),
        ('license', license or released),
    ]
    return CARD.format(
        facts=yaml.safe_dump(
            dict(
                library_name='mmeffvit',
                pipeline_tag=pipeline,
                license='other',
                license_name=license or (model.license or {}).get('Name') or 'not stated',
                tags=list(dict.fromkeys(['mmeffvit', model.family, *model.architecture])),
            ),
            sort_keys=False,
        ),
        name=model.name,
        architecture=' with '.join(model.architecture),
        tasks=' and '.join(model.tasks),
        picture=f'\n![what it finds]({picture})\n' if picture else '',
        rows='\n'.join(f'| {name} | {value} |' for name, value in rows if value),
    )


def numbers(metrics: Mapping[str, float]) -> str:
    return ', '.join(f'{value} {name}' for name, value in metrics.items())
