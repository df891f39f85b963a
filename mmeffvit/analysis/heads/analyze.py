"""Analysis of the heads of a trained model on the test data of its config."""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.runner import Runner
from torch import Tensor, nn

from mmeffvit.config.build import own_model_config
from mmeffvit.errors import UserError
from mmeffvit.models.layers.head_outputs import Visit, keep_only, remove
from mmeffvit.train.engine.evaluate import EvaluationOptions, open_test
from mmeffvit.train.engine.launcher import unwrap
from mmeffvit.train.engine.metrics import in_percent
from mmeffvit.train.engine.user_errors import run
from mmeffvit.utils.files import read_json, write_file
from mmeffvit.utils.messages import logger
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.schema import is_dict
from mmeffvit.utils.text import align, as_user_error

from .layers import Heads, layers_with_heads

TABLE = 'heads.json'


@dataclass
class Head:
    """Measurements of a head; None for those that were not made."""

    outputs: float | None  # mean cosine similarity to the outputs of the layer's other heads
    maps: float | None  # the same for its attention maps; None for a layer without maps
    metrics: dict[str, float] | None = None  # with its output set to zero
    alone: dict[str, float] | None = None  # with all other heads of its layer set to zero


@dataclass
class HeadAnalysis:
    """The heads of a model."""

    subject: dict[str, Any]  # the analyzed config with its overrides, weights and test
    baseline: dict[str, float]  # metrics of the full model, see :func:`measured`
    layers: dict[str, list[Head]] = field(default_factory=dict)  # in the order of execution

    @property
    def metric(self) -> str:
        """The first metric, which is drawn."""
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
        """One line per layer: similarities, and the metric without one head and with only one."""
        lines = [('layer', 'heads', 'outputs', 'maps', 'worst', 'mean', 'best', 'alone')]
        for layer, heads in self.layers.items():
            values = [head.metrics[self.metric] for head in heads if head.metrics]
            ends = (min(values), mean(values), max(values)) if values else (None,) * 3
            similar = [mean([h.outputs for h in heads]), mean([h.maps for h in heads])]
            best = max((head.alone[self.metric] for head in heads if head.alone), default=None)
            cells = [*(digits(s, 3) for s in similar), *(digits(e, 2) for e in (*ends, best))]
            lines.append((layer, str(len(heads)), *cells))
        table = align(lines)
        full = ', '.join(f'{name} {value}' for name, value in self.baseline.items())
        notes = (
            'outputs, maps: mean cosine similarity between the heads of a layer',
            f'worst, mean, best: {self.metric} with one head of the layer set to zero',
            f'alone: the best {self.metric} with one head of the layer left',
            f'with all heads: {full}; {self.subject["images"]} images',
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
    table is saved in ``out`` after every head; a later run of the same test with the same weights
    resumes. ``max_images`` of the test are used, by default all; for ``checkpoint`` see
    :func:`mmeffvit.train.engine.evaluate.evaluate`, for ``layers``
    :func:`mmeffvit.utils.modules.select`.

    Raises:
        UserError: If the model has no heads, a pattern matches none, or the test cannot work.
        mmeffvit.models.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    if max_images is not None and max_images < 1:
        raise UserError(f'--max-images is {max_images}; it must be at least 1')
    options = EvaluationOptions(out, cfg_options or {}, max_images=max_images)
    runner, config = open_test(config_path, checkpoint, options)
    model = unwrap(runner.model)
    found = layers_with_heads(model, layers)
    subject: dict[str, Any] = dict(
        config=Path(config.filename).name,
        weights=digest(model),
        images=len(runner.test_loop.dataloader.dataset),
        test=digest_of_test(config),
        options={key: str(value) for key, value in options.cfg_options.items()},
    )
    earlier = read_earlier(out / TABLE, subject)
    analysis = HeadAnalysis(subject, *measure_similarity(runner, config, found))
    for name, rows in earlier.items():
        heads = analysis.layers.setdefault(name, [Head(**row) for row in rows])
        for head, row in zip(heads, rows, strict=True):
            head.metrics, head.alone = row['metrics'], row.get('alone')
    analysis.save(out)
    if ablate:
        ablate_heads(runner, found, analysis, out, keep=keep_one)
    return analysis


def measure_similarity(
    runner: Runner, config: Config, layers: Mapping[str, Heads]
) -> tuple[dict[str, float], dict[str, list[Head]]]:
    """Test the full model, and compare its heads."""
    with compare_heads(layers) as (outputs, maps):
        metrics = measured(run(runner, runner.test, config))
    if not metrics:
        raise UserError(f'{config.filename}: its test_evaluator measures nothing')
    found = {}
    for name, similarity in outputs.items():
        by_output = similarity.by_head()
        by_map = maps[name].by_head() if name in maps else [None] * len(by_output)
        found[name] = [Head(*pair) for pair in zip(by_output, by_map, strict=True)]
    return metrics, found


@dataclass
class Similarity:
    """Cosine similarities of all pairs of heads, averaged over images."""

    total: Tensor | None = None  # (heads, heads), the sum over images
    images: int = 0

    @torch.no_grad()
    def add(self, heads: Tensor) -> None:
        """Add a batch of outputs or maps, (B, heads, ...)."""
        unit = F.normalize(heads.flatten(2).double(), dim=2)
        found = (unit @ unit.transpose(1, 2)).sum(dim=0).cpu()
        self.total = found if self.total is None else self.total + found
        self.images += len(heads)

    def by_head(self) -> list[float | None]:
        """The mean over the other heads, of each head; None for a single head."""
        mean = self.total / self.images
        others = len(mean) - 1
        if not others:
            return [None]
        return ((mean.sum(dim=1) - mean.diagonal()) / others).tolist()


@contextmanager
def compare_heads(
    layers: Mapping[str, Heads],
) -> Iterator[tuple[dict[str, Similarity], dict[str, Similarity]]]:
    """Compare the heads of layers in every forward pass inside the context.

    Yields:
        Similarities of the outputs and of the attention maps by layer, for layers that ran, in the
        order of execution.
    """
    outputs: dict[str, Similarity] = {}
    maps: dict[str, Similarity] = {}
    with ExitStack() as stack:
        for name, heads in layers.items():
            for found, hook in ((outputs, heads.hook), (maps, heads.hook_maps)):

                def visit(x: Tensor, name: str = name, found: dict = found) -> None:
                    found.setdefault(name, Similarity()).add(x)

                if hook is not None:
                    stack.enter_context(hook(visit))
        yield outputs, maps


def measured(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of papers in percent, or all metrics if there are none of those."""
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    return in_percent(metrics) or numbers


def digest_of_test(config: Config) -> str:
    """A hash of the settings of the model, the dataset and the metrics of the test."""
    model = own_model_config(config)
    text = f'{model} {config.test_dataloader.dataset} {config.test_evaluator}'
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest(model: nn.Module) -> str:
    """A hash of the weights of the model."""
    found = hashlib.sha256()
    for tensor in model.state_dict().values():
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def read_earlier(path: Path, subject: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The heads in an earlier table of the same weights and test, by layer.

    Raises:
        UserError: If it is of others, and has metrics, which took a test each.
    """
    found = read_json(path) if path.is_file() else None
    if not (is_dict(found) and 'subject' in found and is_dict(found.get('layers'))):
        return {}
    layers = found['layers']
    with as_user_error(f'{path} is not a table of heads: move it away'):
        tested = [head['metrics'] for heads in layers.values() for head in heads]
    if found['subject'] == subject:
        return layers
    if any(tested):
        raise UserError(
            f'{path} is of other weights, another config or another test: choose another --out-dir'
        )
    return {}


def ablate_heads(
    runner: Runner, layers: Mapping[str, Heads], analysis: HeadAnalysis, out: Path, *, keep: bool
) -> None:
    """Test the model without each head, with ``keep`` also with each alone, and save the table."""
    kinds: dict[str, Callable[[int], Visit]] = dict(metrics=remove)
    if keep:
        kinds['alone'] = keep_only
    todo = [
        (kind, name, number, head)
        for kind in kinds
        for name, heads in analysis.layers.items()
        for number, head in enumerate(heads)
        if name in layers and getattr(head, kind) is None
    ]
    for done, (kind, name, number, head) in enumerate(todo, start=1):
        with layers[name].hook(kinds[kind](number)), quiet():
            found = measured(runner.test_loop.run())
        # mmdet returns no metrics without detections
        metrics = {metric: found.get(metric, 0.0) for metric in analysis.baseline}
        setattr(head, kind, metrics)
        analysis.save(out)
        value = metrics[analysis.metric]
        what = f'head {number}' + (' alone' if kind == 'alone' else '')
        logger.info(
            f'[{done}/{len(todo)}] {name}, {what}: '
            f'{analysis.metric} {value} ({value - analysis.baseline[analysis.metric]:+.2f})'
        )
