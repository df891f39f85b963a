"""The table of backbones, from the metafile and the measured CPU times.

A row is one variant: its own accuracy, configs and time.
"""

from collections.abc import Iterable, Mapping

from mmeffvit.zoo import Model, read_models

from .tables import DOCS, milliseconds, seconds, table

PAGE = DOCS / 'backbones' / 'README.md'
FAMILIES = {  # family of the metafile: its page and the variants to show
    'SwiftFormer': ('swiftformer.md', ('SwiftFormer-XS', 'SwiftFormer-L1')),
    'SHViT': ('shvit.md', ('SHViT-S1', 'SHViT-S4')),
    'MobileViTv2': ('mobilevitv2.md', ('MobileViTv2-0.5', 'MobileViTv2-1.0')),
    'EfficientFormerV2': (
        'efficientformerv2.md', ('EfficientFormerV2-S0', 'EfficientFormerV2-S2'),
    ),
    'Mobile-Attention': (
        'efficientformerv2.md#mobile-attention', ('EfficientFormerV2-S2-MobiAtt',),
    ),
    'PVTv2': ('pvtv2.md', ('PVTv2-B0',)),
    'DeiT': ('deit.md', ('DeiT-T',)),
}  # fmt: skip
HEADING = ('backbone', 'parameters:', 'top-1:', 'box AP', 'mIoU', 'CPU, ms:')


def tables() -> str:
    models, times = list(read_models().values()), cpu_times()
    lines = [
        row(family, variant, models, times)
        for family, (_, variants) in FAMILIES.items()
        for variant in variants
    ]
    return '\n' + table(HEADING, lines) + '\n'


def row(
    family: str, variant: str, models: Iterable[Model], times: Mapping[str, str]
) -> tuple[str, ...]:
    own = [m for m in models if m.family == family and variant in m.architecture[:2]]
    configs = [model for model in own if model.config]
    (backbone,) = [model for model in own if not model.config] or [None]
    counted = backbone or next(model for model in own if top1(model))
    return (
        f'[{variant}]({FAMILIES[family][0]})',
        f'{counted.parameters / 1e6:.1f} M' + ' with classifier' * (backbone is None),
        f'{top1(counted):.1f}',
        best(configs, 'box AP', 'COCO'),
        best(configs, 'mIoU', 'ADE20K'),
        times.get(counted.name, ''),
    )


def top1(model: Model) -> float | None:
    """The published accuracy on ImageNet-1k."""
    if model.dataset != 'ImageNet-1k':
        return None
    return model.published()[1].get('Top 1 Accuracy')


def best(configs: Iterable[Model], metric: str, dataset: str) -> str:
    """The best published value of a metric, with the head."""
    found = [
        (model.published()[1][metric], model.architecture[0])
        for model in configs
        if model.dataset == dataset and metric in model.published()[1]
    ]
    return '{:.1f} ({})'.format(*max(found)) if found else ''


def cpu_times() -> dict[str, str]:
    """Milliseconds of the exported backbones at the size of their training images."""
    rows = seconds('deployed').values()
    smallest: dict[str, Mapping] = {}
    for measured in rows:
        name = measured['model']
        if name not in smallest or measured['size'] < smallest[name]['size']:
            smallest[name] = measured
    return {name: milliseconds(found['seconds']['ours ONNX']) for name, found in smallest.items()}
