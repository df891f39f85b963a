"""Ablation of the export's special forms; one is kept if it gives 3 % in its family."""

import tempfile
from functools import partial
from pathlib import Path
from unittest import mock

import torch

from mmeffvit.deploy.graphs import any_size

from . import ort
from .backbones import key
from .part import Cases, Rows, Settings, Target, at_least, measured, milliseconds, ratio, table
from .peers import VARIANTS, Variant, assert_same_maps, build_ours, randomize
from .store import Row, rounded

TITLE = 'Special forms of the export'
SECONDS = 10.0
LARGE = 512  # pixels
FORMS = {'1x1 max pooling': ('blocked', 'efficientformerv2')}  # its hook, and its family


def cases(settings: Settings) -> Cases:
    return {
        f'{form}, {key(variant, (side, side))}': partial(measure, form, variant, side, settings)
        for form, (_, family) in FORMS.items()
        for variant in [v for v in VARIANTS if v.family == family][: 1 if settings.quick else None]
        for side in (variant.side, *(() if settings.quick else (LARGE,)))
    }


def measure(form: str, variant: Variant, side: int, settings: Settings) -> Row:
    size = (side, side)
    torch.manual_seed(0)
    backbone = randomize(build_ours(variant, size))
    x = torch.randn(1, 3, *size)
    with tempfile.TemporaryDirectory() as folder:
        files = {'with': ort.export_ours(backbone, size, Path(folder, 'with.onnx'))}
        with mock.patch.object(any_size, FORMS[form][0], return_value=None):
            files['without'] = ort.export_ours(backbone, size, Path(folder, 'without.onnx'))
        runs = {name: ort.runner(file, x) for name, file in files.items()}
    assert_same_maps(runs['without'](), runs['with'](), f'{variant} without {form}')
    samples = settings.time(runs, SECONDS, max_rounds=200)
    return dict(form=form, model=str(variant), size=size, seconds=rounded(samples))


def render(rows: Rows) -> list[str]:
    lines = [
        [
            row['form'],
            row['model'],
            '{} x {}'.format(*row['size']),
            *(milliseconds(row['seconds'][name]) for name in ('with', 'without')),
            ratio(row, 'with', 'without'),
        ]
        for row in measured(rows).values()
    ]
    heading = ['form', 'model', 'image', 'with, ms', 'without, ms', 'with : without']
    return ['Exported backbones in ONNX Runtime, batch 1.', '', *table(heading, lines)]


def targets(rows: Rows) -> list[Target]:
    found = []
    for form in FORMS:
        of_form = {k: row for k, row in measured(rows).items() if row['form'] == form}
        speeds = {k: ratio(row, 'with', 'without').median for k, row in of_form.items()}
        found += at_least(f'with : without the {form}', speeds, 1.03)
    return found
