"""Training steps of full models on a CPU: memory layouts, bfloat16, and where the time goes."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.load import find_config, load_config
from mmeffvit.models.heads import class_counts
from mmeffvit.train.checks.sample import own_batches

from .part import Cases, Rows, Settings, measured, milliseconds, table
from .store import Row, rounded

TITLE = 'Training steps of full models'
SIDES = {  # in pixels
    'rtmdet_swiftformer_xs': 320,
    'maskrcnn_swiftformer_xs': 320,
    'ssdlite_mobilevitv2_100': 320,
    'gflite_shvit_s1': 320,
    'segformer_swiftformer_xs_ade20k': 512,
    'semfpn_shvit_s4_ade20k': 256,
}
LAYOUTS = dict(default=torch.contiguous_format, channels_last=torch.channels_last)
BF16 = 'channels_last, bfloat16'
SECONDS = 12.0
KINDS = {  # of operators, by their names; the first that fits
    'convolutions and products': 'conv|mm|linear|einsum',
    'norms': 'norm',
    'activations': 'gelu|silu|relu|hardswish|hardtanh|sigmoid|threshold|softmax',
    'resizing, pooling and sampling': 'upsample|pool|grid_sample|roi_align|deform',
    'copies': 'copy_|fill_|zero_|cat|clone|contiguous|stack',
    'optimizer': r'Optimizer\.step',
    'other': '',
}


def cases(settings: Settings) -> Cases:
    names = ['gflite_shvit_s1'] if settings.quick else SIDES
    return {name: partial(measure, name, settings) for name in names}


def measure(name: str, settings: Settings) -> Row:
    config = load_config(find_config(name))
    side = 64 if settings.quick else SIDES[name]
    with isolated(config.default_scope):
        model = build_model(own_model_config(config)).train()
        _, sample = own_batches(config)
        batch = sample(side, min(class_counts(model).values()))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
        steps = {
            layout: partial(step, model, optimizer, batch, kept) for layout, kept in LAYOUTS.items()
        }
        steps[BF16] = partial(steps['channels_last'], torch.bfloat16)
        seconds = settings.time(steps, SECONDS, min_rounds=3, warm_up=1)
        shares = operator_shares(steps['channels_last'])
    return dict(side=side, seconds=rounded(seconds), shares=shares)


def step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Mapping,
    layout: torch.memory_format,
    dtype: torch.dtype | None = None,
) -> None:
    """Forward, backward and update, in a memory layout."""
    model.to(memory_format=layout)
    data = model.data_preprocessor(batch, training=True)
    data['inputs'] = data['inputs'].contiguous(memory_format=layout)
    with torch.autocast('cpu', dtype or torch.bfloat16, enabled=dtype is not None):
        loss: Tensor = model.parse_losses(model(**data, mode='loss'))[0]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def operator_shares(run: Callable[[], None]) -> dict[str, float]:
    """The share of each kind of operator in the CPU time."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        run()
    times: Counter[str] = Counter()
    for event in found.key_averages():
        kind = next(kind for kind, names in KINDS.items() if re.search(names, event.key))
        times[kind] += event.self_cpu_time_total
    return {kind: round(times[kind] / times.total(), 3) for kind in KINDS}


def render(rows: Rows) -> list[str]:
    rows = measured(rows)
    variants = (*LAYOUTS, BF16)
    lines = table(
        ['config', 'pixels', *(f'{name}, ms' for name in variants)],
        [
            [name, row['side'], *(milliseconds(row['seconds'][key]) for key in variants)]
            for name, row in rows.items()
        ],
    )
    shares = table(
        ['CPU time in channels_last, %', *KINDS],
        [[name, *(f'{100 * row["shares"][k]:.0f}' for k in KINDS)] for name, row in rows.items()],
    )
    how = 'Two images, forward, backward and update with AdamW.'
    return [how, '', *lines, '', *shares]
