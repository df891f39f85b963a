"""The table of families on the first page, from the metafile and the measured CPU times."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from mmeffvit.zoo import Model, read_models

from .tables import ROOT, milliseconds, seconds, table

PAGE = ROOT / 'README.md'
FAMILIES = {  # family of the metafile: its page
    'SwiftFormer': 'swiftformer.md',
    'SHViT': 'shvit.md',
    'MobileViTv2': 'mobilevitv2.md',
    'EfficientFormerV2': 'efficientformerv2.md',
    'Mobile-Attention': 'efficientformerv2.md#mobile-attention',
    'PVTv2': 'pvtv2.md',
    'DeiT': 'deit.md',
}
HEADING = (
    'family', 'parameters', 'configs for', 'released weights',
    'box AP', 'mIoU', 'top-1', 'CPU time',
)  # fmt: skip
TASKS = {'detection': 'detection', 'segmentation': 'segmentation', 'classification': 'ImageNet'}


def tables() -> str:
    times = cpu_times()
    by_family = {name: [] for name in FAMILIES}
    for model in read_models().values():
        if model.family in by_family:
            by_family[model.family].append(model)
    return '\n' + table(HEADING, (row(name, by_family[name], times) for name in FAMILIES)) + '\n'


def row(family: str, models: Sequence[Model], times: Mapping[str, str]) -> tuple[str, ...]:
    backbones = [model for model in models if model.config is None]
    configs = [model for model in models if model.config]
    tasks = [name for task, name in TASKS.items() if any(task in m.tasks for m in configs)]
    measured = sorted((times[m.name] for m in backbones if m.name in times), key=float)
    return (
        f'[{family}](docs/backbones/{FAMILIES[family]})',
        sizes(backbones) if backbones else f'{sizes(classifiers(configs))} with classifier',
        ', '.join(tasks),
        released(models),
        best(configs, 'box AP', 'COCO'),
        best(configs, 'mIoU', 'ADE20K'),
        between(top1(m) for m in models if top1(m)),
        '-'.join(measured) + ' ms' * bool(measured),
    )


def classifiers(configs: Iterable[Model]) -> list[Model]:
    return [model for model in configs if 'classification' in model.tasks]


def sizes(models: Iterable[Model]) -> str:
    return between((model.parameters / 1e6 for model in models), ' M')


def between(values: Iterable[float], unit: str = '') -> str:
    """``3.0-27.5 M``, or nothing."""
    found = sorted(values)
    if not found:
        return ''
    return '-'.join(dict.fromkeys(f'{value:.1f}' for value in (found[0], found[-1]))) + unit


def released(models: Iterable[Model]) -> str:
    """How many files of weights the authors released, by the data that they were trained on."""
    files = {model.weights: model.dataset for model in models if model.weights}
    counts = Counter(name.removesuffix('-1k').partition(' + ')[0] for name in files.values())
    return ', '.join(f'{count} {name}' for name, count in counts.items())


def top1(model: Model) -> float | None:
    """The published accuracy on ImageNet-1k."""
    if model.dataset != 'ImageNet-1k':
        return None
    return model.published()[1].get('Top 1 Accuracy')


def best(configs: Iterable[Model], metric: str, dataset: str) -> str:
    """The best published value of a metric, with head and backbone."""
    found = [
        (model.published()[1][metric], model)
        for model in configs
        if model.dataset == dataset and metric in model.published()[1]
    ]
    if not found:
        return ''
    value, model = max(found, key=lambda pair: pair[0])
    head, backbone = model.architecture[:2]
    variant = backbone.removeprefix('EfficientFormerV2-').removesuffix('-MobiAtt')
    return f'{value:.1f} ({head}, {variant.rpartition("-")[2]})'


def cpu_times() -> dict[str, str]:
    """Milliseconds of the exported backbones at the size of their training images."""
    rows = seconds('deployed').values()
    smallest: dict[str, Mapping] = {}
    for measured in rows:
        name = measured['model']
        if name not in smallest or measured['size'] < smallest[name]['size']:
            smallest[name] = measured
    return {name: milliseconds(found['seconds']['ours ONNX']) for name, found in smallest.items()}
