"""Analysis of the heads of a trained model on the test data of its config."""

import csv
import hashlib
import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.runner import Runner
from torch import nn

from mmeffvit.engine.evaluate import open_test
from mmeffvit.engine.launcher import unwrap
from mmeffvit.engine.metrics import in_percent
from mmeffvit.engine.options import RunOptions
from mmeffvit.engine.user_errors import run
from mmeffvit.errors import UserError
from mmeffvit.layers.head_outputs import Visit, only, without
from mmeffvit.utils.files import read_json, write_file
from mmeffvit.utils.messages import logger
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import align

from .layers import Heads, layers_with_heads
from .similarity import compare_heads

TABLE = 'heads.json'


@dataclass
class Head:
    """Measurements of a head.

    Args:
        outputs: Mean cosine similarity of its output to those of the other heads of its layer.
        maps: The same of its attention maps; None for a layer without maps.
        metrics: The metrics after its output is set to zero; None before that.
        alone: The metrics after the outputs of all other heads of its layer are; None before that.
    """

    outputs: float | None
    maps: float | None
    metrics: dict[str, float] | None = None
    alone: dict[str, float] | None = None


@dataclass
class HeadAnalysis:
    """The heads of a model.

    Args:
        subject: What was analyzed: the config and its overrides, the weights, the images.
        baseline: The metrics of the model as it is, see :func:`measured`.
        layers: The heads by layer, in the order of execution.
    """

    subject: dict[str, Any]
    baseline: dict[str, float]
    layers: dict[str, list[Head]] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The first of the metrics, which is the one that is drawn."""
        return next(iter(self.baseline))

    def rows(self) -> Iterator[dict[str, Any]]:
        """One flat row per head."""
        for layer, heads in self.layers.items():
            for number, head in enumerate(heads):
                similar = dict(similarity_outputs=head.outputs, similarity_maps=head.maps)
                alone = {f'alone: {name}': value for name, value in (head.alone or {}).items()}
                yield dict(layer=layer, head=number, **similar, **(head.metrics or {}), **alone)

    def save(self, folder: Path) -> None:
        """Write ``heads.json`` and ``heads.csv``."""
        write_file(folder / TABLE, json.dumps(asdict(self), indent=1) + '\n')
        text = io.StringIO()
        names = ['layer', 'head', 'similarity_outputs', 'similarity_maps', *self.baseline]
        names += [f'alone: {name}' for name in self.baseline]
        writer = csv.DictWriter(text, names, lineterminator='\n')
        writer.writeheader()
        writer.writerows(self.rows())
        write_file(folder / 'heads.csv', text.getvalue())

    def __str__(self) -> str:
        """One line per layer: similarities, the metric without one head, the best with one left."""
        lines = [('layer', 'heads', 'outputs', 'maps', 'worst', 'mean', 'best', 'alone')]
        for layer, heads in self.layers.items():
            values = [head.metrics[self.metric] for head in heads if head.metrics]
            ends = (min(values), mean(values), max(values)) if values else (None,) * 3
            similar = [mean([h.outputs for h in heads]), mean([h.maps for h in heads])]
            best = max((head.alone[self.metric] for head in heads if head.alone), default=None)
            cells = [*(digits(s, 3) for s in similar), *(digits(e, 2) for e in (*ends, best))]
            lines.append((layer, str(len(heads)), *cells))
        table = align(lines)
        whole = ', '.join(f'{name} {value}' for name, value in self.baseline.items())
        notes = (
            'outputs, maps: mean cosine similarity between the heads of a layer',
            f'worst, mean, best: {self.metric} with one head of the layer set to zero',
            f'alone: the best {self.metric} with one head of the layer left',
            f'with all heads: {whole}; {self.subject["images"]} images',
        )
        return '\n'.join([*table, *notes])


def mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def digits(value: float | None, decimals: int) -> str:
    return '' if value is None else f'{value:.{decimals}f}'


def analyze_heads(
    config_path: str,
    checkpoint: str | None,
    out: Path,
    *,
    cfg_options: Mapping[str, Any] | None = None,
    layers: Sequence[str] = (),
    max_images: int | None = None,
    ablate: bool = True,
    keep_one: bool = False,
) -> HeadAnalysis:
    """Compare the heads of each layer, and test the model without each of them in turn.

    With ``keep_one``, also with each of them alone: the two experiments of SHViT's appendix D. The
    table is saved after every head; heads that it already has for the same weights and images
    are not tested again.

    Args:
        config_path: A config of mmdet, mmseg or mmpretrain, or a saved model.
        checkpoint: See :func:`mmeffvit.engine.evaluate.evaluate`.
        out: Folder for the tables and the log.
        cfg_options: Dotted keys and values that override the config's.
        layers: Names or patterns of layers, see :func:`mmeffvit.utils.modules.select`.
        max_images: Test on so many images only.
        ablate: Whether to test without each head.
        keep_one: Whether to test with each head alone, too: all others of its layer are removed.

    Raises:
        UserError: If the model has no heads, a pattern matches none, or the test cannot work.
        mmeffvit.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    if max_images is not None and max_images < 1:
        raise UserError(f'--max-images is {max_images}; it must be at least 1')
    options = RunOptions(work_dir=out, cfg_options=cfg_options or {})
    runner, config = open_test(config_path, checkpoint, options, max_images=max_images)
    model = unwrap(runner.model)
    found = layers_with_heads(model, layers)
    analysis = measure_similarity(runner, config, found)
    analysis.subject['options'] = {key: str(value) for key, value in options.cfg_options.items()}
    resume(analysis, out / TABLE)
    analysis.save(out)
    if ablate:
        ablate_heads(runner, found, analysis, out, keep=keep_one)
    return analysis


def measure_similarity(runner: Runner, config: Config, layers: Mapping[str, Heads]) -> HeadAnalysis:
    """Test the model as it is, and compare its heads."""
    with compare_heads(layers) as (outputs, maps):
        metrics = measured(run(runner, runner.test, config))
    if not metrics:
        raise UserError(f'{config.filename}: its test_evaluator measures nothing')
    subject = dict(
        config=Path(config.filename).name,
        weights=digest(unwrap(runner.model)),
        images=len(runner.test_loop.dataloader.dataset),
    )
    analysis = HeadAnalysis(subject, metrics)
    for name, similarity in outputs.items():
        by_output = similarity.by_head()
        by_map = maps[name].by_head() if name in maps else [None] * len(by_output)
        analysis.layers[name] = [Head(*pair) for pair in zip(by_output, by_map, strict=True)]
    return analysis


def measured(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of papers in percent, or all metrics if there are none of those."""
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    return in_percent(metrics) or numbers


def digest(model: nn.Module) -> str:
    """A number that changes with any weight of the model."""
    found = hashlib.sha256()
    for tensor in model.state_dict().values():
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def resume(analysis: HeadAnalysis, path: Path) -> None:
    """Take over what an earlier table of the same weights and images has more, in place."""
    if not path.is_file():
        return
    earlier = read_json(path)
    if not isinstance(earlier, dict) or earlier.get('subject') != analysis.subject:
        return
    for name, rows in earlier['layers'].items():
        heads = analysis.layers.setdefault(name, [Head(**row) for row in rows])
        for head, row in zip(heads, rows, strict=True):
            head.metrics, head.alone = row['metrics'], row.get('alone')


def ablate_heads(
    runner: Runner, layers: Mapping[str, Heads], analysis: HeadAnalysis, out: Path, *, keep: bool
) -> None:
    """Test the model without each head in turn, and save the table after each.

    With ``keep``, test it with each head alone as well: all others of its layer are set to zero.
    """
    kinds: dict[str, Callable[[int], Visit]] = dict(metrics=without)
    if keep:
        kinds['alone'] = only
    todo = [
        (kind, name, number, head)
        for kind in kinds
        for name, heads in analysis.layers.items()
        for number, head in enumerate(heads)
        if name in layers and getattr(head, kind) is None
    ]
    for done, (kind, name, number, head) in enumerate(todo, start=1):
        handle = layers[name].hook(kinds[kind](number))
        try:
            with quiet(), silent(runner.logger):
                found = measured(runner.test_loop.run())
        finally:
            handle.remove()
        # mmdet measures nothing where nothing is found
        metrics = {metric: found.get(metric, 0.0) for metric in analysis.baseline}
        setattr(head, kind, metrics)
        analysis.save(out)
        value = metrics[analysis.metric]
        what = f'head {number}' + (' alone' if kind == 'alone' else '')
        logger.info(
            f'[{done}/{len(todo)}] {name}, {what}: '
            f'{analysis.metric} {value} ({value - analysis.baseline[analysis.metric]:+.2f})'
        )


@contextmanager
def silent(logger: logging.Logger) -> Iterator[None]:
    """Log errors only; mmengine's logger caches its level, so that disabling all loggers fails."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
