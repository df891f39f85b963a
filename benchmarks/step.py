"""A training step of full recipes by part: with mmengine's hooks and optimizer step, and ours."""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from functools import partial, wraps
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.hooks import EMAHook
from mmengine.registry import DATASETS, LOOPS
from mmengine.runner import EpochBasedTrainLoop
from torch.utils.data import Dataset

from mmeffvit.analysis.figures import save_figure
from mmeffvit.config.build import isolated, own_model_config
from mmeffvit.config.load import load_config
from mmeffvit.train.checks.sample import BATCH, own_batches
from mmeffvit.train.engine.hooks import seed_all
from mmeffvit.train.engine.launcher import build_runner
from mmeffvit.utils.quiet import quiet

from .part import CLOCKS, Cases, Rows, Settings, Target, digits, measured, table
from .store import Row, rounded
from .timing import no_garbage_collection

TITLE = 'A training step of full recipes'
STEPS, WARM_UP = 12, 2
PLOT = 'training_step.png'
MOST = 0.03  # of a step, except forward, backward and loading
MODEL = ('forward', 'backward', 'data')
REST = ('optimizer', 'EMA', 'logging', 'other')
COLORS = ('tab:blue', 'tab:orange', 'tab:green', 'tab:gray')
# the side of the images, in pixels: that of the recipe for RTMDet and SSDLite
CONFIGS = {
    'rtmdet_swiftformer_xs': 640,
    'maskrcnn_swiftformer_xs': 320,
    'retinanet_shvit_s4': 320,
    'ssdlite_mobilevitv2_100': 320,
    'deformabledetr_shvit_s4_single_head': 320,
    'pspnet_mobilevitv2_050_ade20k': 256,
    'deeplabv3_mobilevitv2_050_ade20k': 256,
    'semfpn_shvit_s4_ade20k': 256,
    'segformer_shvit_s1_ade20k': 256,
}
KINDS = ('stock', 'ours')


@LOOPS.register_module()
class StepwiseLoop(EpochBasedTrainLoop):
    """An epoch whose steps the caller runs, so that two runs alternate."""

    def run(self) -> None:
        self.runner.call_hook('before_train')
        self.runner.call_hook('before_train_epoch')
        self.runner.model.train()
        self.batches = iter(self.dataloader)


@DATASETS.register_module()
class RepeatedBatch(Dataset):
    """A few images of noise, repeated, with the targets of a recipe."""

    def __init__(self, recipe: str, side: int) -> None:
        config = load_config(recipe)
        _, make = own_batches(config)
        batch = make(side, 150 if config.default_scope == 'mmseg' else 80)  # ADE20K, COCO
        self.samples = list(zip(batch['inputs'], batch['data_samples'], strict=True))

    def __len__(self) -> int:
        return 10_000  # an epoch does not end

    def __getitem__(self, index: int) -> dict[str, Any]:
        image, sample = self.samples[index % len(self.samples)]
        return dict(inputs=image, data_samples=deepcopy(sample))


class Run:
    """A run of a recipe whose parts are timed.

    Args:
        name: The config.
        side: Side of the images, in pixels.
        kind: 'stock' for mmengine's hooks and optimizer step, 'ours' for those of the config.
        work_dir: Folder of the log.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, name: str, side: int, kind: str, work_dir: Path, clock: Callable[[], float]
    ) -> None:
        self.clock = clock
        self.seconds: dict[str, float] = defaultdict(float)
        self.runner = build_runner(recipe(name, side, kind, work_dir / kind))
        self.runner.train()
        self.loop, wrapper = self.runner.train_loop, self.runner.optim_wrapper
        self.time(self.runner.model, 'train_step', 'train_step')
        self.time(wrapper, 'update_params', 'update_params')
        self.time(wrapper, 'backward', 'backward')
        for hook in self.runner.hooks:
            part = 'EMA' if isinstance(hook, EMAHook) else 'logging'
            for method in ('before_train_iter', 'after_train_iter'):
                self.time(hook, method, part)

    def time(self, owner: object, method: str, part: str) -> None:
        """Add the time of a method to a part."""
        run = getattr(owner, method)

        @wraps(run)
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = self.clock()
            try:
                return run(*args, **kwargs)
            finally:
                self.seconds[part] += self.clock() - start

        setattr(owner, method, timed)

    def step(self, number: int) -> tuple[dict[str, float], float]:
        """Run a step; returns the seconds of each part, and the loss."""
        seed_all(number)
        self.seconds.clear()
        start = self.clock()
        batch = next(self.loop.batches)
        loaded = self.clock()
        self.loop.run_iter(number, batch)
        total = self.clock() - start
        taken = self.seconds
        parts = dict(data=loaded - start, EMA=taken['EMA'], logging=taken['logging'])
        parts['forward'] = taken['train_step'] - taken['update_params']
        parts['backward'] = taken['backward']
        parts['optimizer'] = taken['update_params'] - taken['backward']
        parts['other'] = total - sum(parts.values())
        loss = self.runner.message_hub.get_scalar('train/loss').current()
        return {**parts, 'step': total}, float(loss)


def recipe(name: str, side: int, kind: str, work_dir: Path) -> Config:
    """The config with generated data, without validation and checkpoints."""
    config = load_config(name)
    hooks = [hook for hook in config.get('custom_hooks', ()) if 'EMAHook' in hook.type]
    defaults = {**config.default_hooks, 'checkpoint': None, 'sampler_seed': None}
    optim_wrapper = dict(config.optim_wrapper)
    if kind == 'stock':
        hooks = [{**hook, 'type': hook['type'].removeprefix('mmeffvit.')} for hook in hooks]
        defaults['runtime_info'] = dict(type='RuntimeInfoHook')
        optim_wrapper['constructor'] = 'DefaultOptimWrapperConstructor'
    return Config(dict(
        model=own_model_config(config),
        default_scope=config.default_scope,
        work_dir=str(work_dir),
        experiment_name=f'{name}_{kind}',
        train_dataloader=dict(
            dataset=dict(type='RepeatedBatch', recipe=name, side=side),
            sampler=dict(type='DefaultSampler', shuffle=False),
            batch_size=BATCH,
        ),
        train_cfg=dict(type='StepwiseLoop', max_epochs=300),
        optim_wrapper=optim_wrapper,
        param_scheduler=config.param_scheduler,
        default_hooks=defaults,
        custom_hooks=hooks,
        randomness=dict(seed=0),
    ))  # fmt: skip


def cases(settings: Settings) -> Cases:
    names = ['ssdlite_mobilevitv2_100'] if settings.quick else CONFIGS
    return {name: partial(measure, name, CONFIGS[name], settings) for name in names}


def measure(name: str, side: int, settings: Settings) -> Row:
    """Train both in turns, with the same initial weights and random numbers."""
    warm_up, steps = (1, 2) if settings.quick else (WARM_UP, STEPS)
    scope = load_config(name).default_scope
    parts = {kind: defaultdict(list) for kind in KINDS}
    losses = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder, quiet(), isolated(scope), no_garbage_collection():
        clock = CLOCKS[settings.clock]
        runs = {kind: Run(name, side, kind, Path(folder), clock) for kind in KINDS}
        groups = len(runs['ours'].runner.optim_wrapper.param_groups)
        for number in range(warm_up + steps):
            for kind, run in runs.items():
                seconds, loss = run.step(number)
                losses[kind].append(loss)
                for part, taken in seconds.items() if number >= warm_up else ():
                    parts[kind][part].append(taken)
    return dict(
        side=side, batch=BATCH, groups=groups, losses=losses,
        seconds={kind: rounded(parts[kind])['step'] for kind in KINDS},
        parts={
            kind: {part: float(f'{statistics.median(v):.4g}') for part, v in parts[kind].items()}
            for kind in KINDS
        },
    )  # fmt: skip


def overhead(row: Row, kind: str) -> float:
    """The share of a step that is neither forward, nor backward, nor loading."""
    parts = row['parts'][kind]
    return sum(parts[part] for part in REST) / sum(parts[part] for part in (*MODEL, *REST))


def render(rows: Rows) -> list[str]:
    heading = ['recipe', 'images', 'groups', 'hooks and optimizer', *MODEL[:2], *REST]
    lines = []
    for name, row in measured(rows).items():
        for kind in KINDS:
            parts = row['parts'][kind]
            cells = [f'{name}, {kind}', f'{row["batch"]} of {row["side"]} x {row["side"]}']
            cells += [row['groups'], f'{overhead(row, kind):.1%}']
            lines.append([*cells, *(digits(1e3 * parts[part]) for part in (*MODEL[:2], *REST))])
    text = (
        'Median milliseconds of steps of both runs in turns, with the same initial weights and '
        "images and a log line every 50 steps. Stock: mmengine's optimizer wrapper, EMA and "
        'logging. Groups: parameter groups. Hooks and optimizer: the share of a step except '
        'forward, backward and loading.'
    )
    return [text, '', *table(heading, lines), '', f'![Overhead of a step, and losses]({PLOT})']


def targets(rows: Rows) -> list[Target]:
    shares = {name: overhead(row, 'ours') for name, row in measured(rows).items()}
    if not shares:
        return []
    worst = max(shares, key=shares.__getitem__)
    text = f'training step, hooks and optimizer at most {MOST:.0%} in every recipe'
    return [Target(text, f'{shares[worst]:.1%} ({worst})', shares[worst] <= MOST)]


def draw(rows: Rows, folder: Path) -> None:
    """Write a plot of the overhead and of the losses to ``folder``, if any were measured."""
    rows = measured(rows)
    if not rows:
        return
    figure = Figure((13, 4.8), layout='tight')
    bars, curves = figure.subplots(1, 2)
    names = [name.partition('_')[0] for name in rows]
    for offset, kind in zip((0.2, -0.2), KINDS, strict=True):
        left = [0.0] * len(rows)
        for part, color in zip(REST, COLORS, strict=True):
            widths = [1e3 * row['parts'][kind][part] for row in rows.values()]
            places = [index + offset for index in range(len(rows))]
            style = dict(alpha=0.45, hatch='//') if kind == 'stock' else {}
            label = f'{part}, {kind}'
            bars.barh(places, widths, 0.38, left, color=color, label=label, **style)
            left = [a + b for a, b in zip(left, widths, strict=True)]
    bars.set_yticks(range(len(rows)), names)
    bars.invert_yaxis()
    bars.set_xlabel('milliseconds per step except forward, backward and loading')
    bars.legend(fontsize=8)
    for name, row in zip(names, rows.values(), strict=True):
        first = row['losses']['stock'][0]
        (line,) = curves.plot([x / first for x in row['losses']['stock']], lw=4, alpha=0.35)
        ours = [x / first for x in row['losses']['ours']]
        curves.plot(ours, '--', lw=1.2, color=line.get_color(), label=name)
    curves.set_xlabel('step')
    curves.set_ylabel('loss relative to the first; wide: stock, dashed: ours')
    curves.legend(fontsize=8, loc='upper left', bbox_to_anchor=(1, 1))
    save_figure(figure, folder / PLOT, dpi=110)
