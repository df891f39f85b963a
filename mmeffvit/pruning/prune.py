"""Remove heads of Mobile-Attention from a trained model, and write it as a smaller one."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.runner import Runner
from torch import nn

from mmeffvit.backbones import Backbone
from mmeffvit.checks.run import check_data
from mmeffvit.complexity.count import Complexity, count_config
from mmeffvit.config.build import own_model_config
from mmeffvit.config.datasets import datasets_of
from mmeffvit.errors import UserError
from mmeffvit.inference.model import LoadedModel, load_predictor
from mmeffvit.layers.head_projections import HeadProjections, prunable_layers
from mmeffvit.utils.files import atomic_output, check_output

from .scores import Scores, best_heads, competition_scores, random_scores, uvc_scores

METHODS = ('competition', 'random', 'uvc')


@dataclass(frozen=True)
class PruneOptions:
    """Which heads are removed.

    Args:
        keep: Part of the heads of each layer that are kept, between 0 and 1.
        method: What scores the heads, one of ``METHODS``.
        max_images: Number of test images that the competition is watched on; None for all.
        seed: Of random scores.

    Raises:
        UserError: If a value is not one of its choices.
    """

    keep: float = 0.5
    method: str = 'competition'
    max_images: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.keep < 1:
            raise UserError(f'--keep is {self.keep}; choose a ratio above 0 and below 1')
        if self.method not in METHODS:
            raise UserError(f'--method is {self.method!r}; choose one of {", ".join(METHODS)}')
        if self.max_images is not None and self.max_images < 1:
            raise UserError(f'--max-images is {self.max_images}; it starts at 1')
        if not 0 <= self.seed < 2**63:
            raise UserError(f'--seed is {self.seed}; choose one from 0 to 2**63 - 1')


@dataclass
class Pruned:
    """What pruning made of a model.

    Args:
        config: The config of the smaller model.
        before: Parameters and multiply-adds of the model.
        after: Those of the smaller one.
        heads: Number of heads before, and the heads that were kept, by layer of the backbone.
    """

    config: Path
    before: Complexity
    after: Complexity
    heads: dict[str, tuple[int, list[int]]] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f'{name}: {len(kept)} of {n} heads' for name, (n, kept) in self.heads.items()]
        for what, unit in (('parameters', 'M'), ('multiply_adds', 'G')):
            size = {'M': 1e6, 'G': 1e9}[unit]
            old, new = (getattr(c.total, what) for c in (self.before, self.after))
            change = f'{100 * (new / old - 1):.1f} %'
            name = what.replace('_', '-')
            lines.append(f'{name}: {old / size:.3f} -> {new / size:.3f} {unit} ({change})')
        height, width = self.after.shape
        lines[-1] += f' at {height} x {width}'
        return '\n'.join([*lines, f'{self.config.with_suffix(".pth")}, {self.config}'])


def prune(
    config_path: str,
    checkpoint: str | None,
    out: str | Path,
    options: PruneOptions | None = None,
    *,
    cfg_options: Mapping[str, Any] | None = None,
) -> Pruned:
    """Remove heads of every Mobile-Attention layer, and write ``out`` and a config next to it.

    The competition then runs among the heads that are left: its sums are over fewer heads.

    Args:
        config_path: A config of mmdet or mmseg, or a saved model.
        checkpoint: A checkpoint for it; None for the saved or the released one.
        out: The checkpoint to write, ``FILE.pth``; its config is ``FILE.py``.
        options: What to remove.
        cfg_options: Dotted keys and values that override the config's.

    Raises:
        UserError: If the model has no such heads, or an argument cannot be used.
        mmeffvit.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    options = options or PruneOptions()
    path = check_outputs(Path(out), config_path, checkpoint)
    loaded = load_predictor(config_path, checkpoint, cfg_options=cfg_options)
    layers = layers_of(loaded.model)
    before = count_config(Path(config_path).stem, loaded.config)
    scores = score(loaded, layers, options)
    heads = {}
    for name, layer in layers.items():
        kept = best_heads(scores[name], options.keep)
        heads[name] = (layer.count, kept)
        layer.keep(kept)
    config = pruned_config(loaded.config, [len(kept) for _, kept in heads.values()])
    after = count_config(path.stem, config)
    save(loaded, config, path, dict(method=options.method, heads=heads))
    return Pruned(path.with_suffix('.py'), before, after, heads)


def check_outputs(out: Path, *inputs: str | None) -> Path:
    """Check that the checkpoint and its config take the place of nothing but an earlier result.

    Raises:
        UserError: If one cannot be written, is an input, or is a config that is not of this tool.
    """
    path = check_output(out, '.pth')
    config = check_output(path.with_suffix('.py'))
    for place in (path, config):
        if any(name and Path(name).resolve() == place.resolve() for name in inputs):
            raise UserError(f'--out {str(out)!r} would replace {place}, which is read: rename it')
    if config.is_file() and 'kept_heads' not in config.read_text():
        raise UserError(
            f'--out {str(out)!r} would replace {config}, which is not of a pruned model: rename it'
        )
    return path


def layers_of(model: nn.Module) -> dict[str, HeadProjections]:
    """The layers of the backbone whose heads can be removed.

    Raises:
        UserError: If there are none.
    """
    backbone = model.backbone
    layers = prunable_layers(backbone) if isinstance(backbone, Backbone) else {}
    if not layers:
        raise UserError(
            f'{type(backbone).__name__} has no heads of Mobile-Attention: only those can be '
            'removed, as of EfficientFormerV2MobiAtt, PVTv2MobiAtt or DeiTMobiAtt'
        )
    return layers


def score(
    loaded: LoadedModel, layers: Mapping[str, HeadProjections], options: PruneOptions
) -> Scores:
    if options.method == 'random':
        return random_scores(layers, options.seed)
    if options.method == 'uvc':
        return uvc_scores(layers)
    return competition_scores(loaded.model, layers, batches_of(loaded.config, options.max_images))


def batches_of(config: Config, max_images: int | None) -> Any:
    """The test data loader of a config, for some images.

    Raises:
        UserError: If it has none, or its files are missing.
    """
    check_data(config, ('test',))
    config = deepcopy(config)
    for dataset in datasets_of(config, 'test') if max_images is not None else ():
        dataset['indices'] = max_images
    return Runner.build_dataloader(config.test_dataloader, seed=0)


def pruned_config(config: Config, counts: list[int]) -> Config:
    """The config of the smaller model; no released weights fit it."""
    config = deepcopy(config)
    config.model = own_model_config(config)
    config.model.backbone.kept_heads = counts
    return config


def save(loaded: LoadedModel, config: Config, path: Path, pruning: Mapping[str, Any]) -> None:
    """Write the checkpoint and, next to it, the config."""
    state = {key: value.detach().cpu() for key, value in loaded.model.state_dict().items()}
    meta = dict(dataset_meta=dict(loaded.visualizer.dataset_meta), pruning=dict(pruning))
    with atomic_output(path) as partial:
        torch.save(dict(meta=meta, state_dict=state), partial)
        config.dump(partial.with_suffix('.py'))
