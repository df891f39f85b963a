"""Remove heads of Mobile-Attention and hidden units from a trained model."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from torch import nn

from mmeffvit.analysis.complexity.count import Complexity, count_config
from mmeffvit.config.build import own_model_config
from mmeffvit.config.datasets import limit_tests
from mmeffvit.errors import UserError
from mmeffvit.inference.predictor import Predictor
from mmeffvit.models import Backbone
from mmeffvit.models.checkpoints.state import grids_in, torch_file, with_grids
from mmeffvit.models.layers.head_projections import Units, hidden_layers, prunable_layers
from mmeffvit.train.checks.data import check_data
from mmeffvit.train.engine.user_errors import building, loading, name_unreadable
from mmeffvit.utils.files import atomic_output, check_output, read_file

from .scores import Scores, best_units, competition_scores, random_scores, uvc_scores

METHODS = ('competition', 'random', 'uvc')
TEACHER = ('teacher', 'teacher_ckpt')  # of a distilled classifier
# by layer, the number of units before pruning, and the kept units
Kept = dict[str, tuple[int, list[int]]]


@dataclass(frozen=True)
class PruneOptions:
    """The choice of heads and hidden units to remove; a ``UserError`` for invalid values."""

    keep: float = 0.5  # fraction of the heads of each layer to keep, in (0, 1)
    keep_neurons: float | None = None  # the same for hidden units, in (0, 1]; None for ``keep``
    # score of heads, one of ``METHODS``; that of hidden units is 'random' or UVC's
    method: str = 'competition'
    max_images: int | None = None  # test images for the scores of the competition; None for all
    seed: int = 0  # of random scores

    def __post_init__(self) -> None:
        if not 0 < self.keep < 1:
            raise UserError(f'--keep is {self.keep}; choose a ratio above 0 and below 1')
        if self.keep_neurons is not None and not 0 < self.keep_neurons <= 1:
            raise UserError(
                f'--keep-neurons is {self.keep_neurons}; choose a ratio above 0 and at most 1'
            )
        if self.max_images is not None and self.max_images < 1:
            raise UserError(f'--max-images is {self.max_images}; it must be at least 1')
        if not 0 <= self.seed < 2**63:
            raise UserError(f'--seed is {self.seed}; choose one from 0 to 2**63 - 1')


@dataclass
class Pruned:
    """Result of pruning a model."""

    config: Path  # of the pruned model
    before: Complexity  # of the full model
    after: Complexity  # of the pruned model
    heads: Kept  # by layer of the backbone
    neurons: Kept  # hidden units, by feed-forward layer

    def __str__(self) -> str:
        lines = [
            f'{name}: {len(kept)} of {number} {what}'
            for what, units in (('heads', self.heads), ('hidden units', self.neurons))
            for name, (number, kept) in units.items()
        ]
        for name, size, unit in (('parameters', 1e6, 'M'), ('macs', 1e9, 'G')):
            old, new = (getattr(c.total, name) for c in (self.before, self.after))
            change = f'{100 * (new / old - 1):.1f} %'
            lines.append(f'{name}: {old / size:.3f} -> {new / size:.3f} {unit} ({change})')
        height, width = self.after.shape
        lines[-1] += f' at {height} x {width}'
        files = (self.config.with_suffix('.pth'), self.config, distillation_path(self.config))
        return '\n'.join([*lines, ', '.join(map(str, files))])


def prune(
    config_path: str,
    checkpoint: str | None,
    out: str | Path,
    options: PruneOptions,
    *,
    cfg_options: Mapping[str, Any] | None = None,
) -> Pruned:
    """Remove heads and hidden units of a backbone with Mobile-Attention: appendix A of its paper.

    The competition then runs among the remaining heads. The checkpoint ``out``, ``FILE.pth``, is
    written with its config, ``FILE.py``, and with a second config that trains it as the student of
    the full model, ``FILE_distill.py``. By default, the saved or the released checkpoint is pruned.

    Raises:
        UserError: If the model has no such heads, or an argument cannot be used.
        mmeffvit.models.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    path = check_outputs(Path(out), config_path, checkpoint)
    loaded = Predictor(config_path, checkpoint, cfg_options=cfg_options)
    check_outputs(path, loaded.checkpoint.source)  # a run's own
    layers, hidden = layers_of(loaded.model), hidden_layers(loaded.model.backbone)
    before = count_config(Path(config_path).stem, loaded.config)
    is_random = options.method == 'random'
    score = partial(random_scores, seed=options.seed) if is_random else uvc_scores
    if options.method == 'competition':
        batches = batches_of(loaded.config, options.max_images)
        with loading():
            scores = competition_scores(loaded.model, layers, batches)
    else:
        scores = score(layers)
    keep_neurons = options.keep if options.keep_neurons is None else options.keep_neurons
    neurons = keep_best(hidden, score(hidden), keep_neurons)
    heads = keep_best(layers, scores, options.keep)
    config = pruned_config(loaded.config, heads, neurons)
    after = count_config(path.stem, config)
    student = distillation_config(loaded.config, config, path, loaded.checkpoint.source)
    save(loaded, config, student, path, dict(method=options.method, heads=heads, neurons=neurons))
    return Pruned(path.with_suffix('.py'), before, after, heads, neurons)


def keep_best(layers: Mapping[str, Units], scores: Scores, keep: float) -> Kept:
    """Remove all but the best units of every layer: the number before, and which are kept."""
    kept = {}
    for name, layer in layers.items():
        kept[name] = (layer.count, best_units(scores[name], keep))
        layer.keep(kept[name][1])
    return kept


def check_outputs(out: Path, *inputs: str | None) -> Path:
    """Check that the checkpoint and its configs replace nothing but an earlier result."""
    path = check_output(out, '.pth')
    configs = [check_output(p) for p in (path.with_suffix('.py'), distillation_path(path))]
    for place in (path, *configs):
        if any(name and Path(name).resolve() == place.resolve() for name in inputs):
            raise UserError(f'--out {str(out)!r} would replace {place}, which is read: rename it')
    for config in configs:
        if config.is_file() and b'kept_heads' not in read_file(config):
            raise UserError(
                f'--out {str(out)!r} would replace {config}, which is not of a pruned model: '
                'rename it'
            )
    return path


def layers_of(model: nn.Module) -> dict[str, Units]:
    """The layers of the backbone whose heads can be removed."""
    backbone = model.backbone
    layers = prunable_layers(backbone) if isinstance(backbone, Backbone) else {}
    if not layers:
        raise UserError(
            f'{type(backbone).__name__} has no heads of Mobile-Attention: only those can be '
            'removed, as of EfficientFormerV2MobiAtt, PVTv2MobiAtt or DeiTMobiAtt'
        )
    return layers


def batches_of(config: Config, max_images: int | None) -> Any:
    """The test data loader of a config, with at most ``max_images`` per dataset."""
    check_data(config, ('test',))
    config = deepcopy(config)
    limit_tests(config, max_images)
    with DefaultScope.overwrite_default_scope(config.default_scope), building(config):
        loader = Runner.build_dataloader(config.test_dataloader, seed=0)
    name_unreadable(loader.dataset)
    return loader


def pruned_config(config: Config, heads: Kept, neurons: Kept) -> Config:
    """The config of the pruned model, without the weights and the run of the full one."""
    config = deepcopy(config)
    config.load_from, config.resume = None, False
    config.pop('work_dir', None)
    teacher = {key: config.model[key] for key in TEACHER if key in config.model}
    config.model = own_model_config(config)
    config.model.update(teacher)
    for argument, units in (('kept_heads', heads), ('kept_neurons', neurons)):
        config.model.backbone[argument] = [len(kept) for _, kept in units.values()]
    return config


def distillation_path(path: Path) -> Path:
    """The path of the config that trains a checkpoint as a student."""
    return path.with_name(f'{path.stem}_distill.py')


def distillation_config(config: Config, pruned: Config, path: Path, checkpoint: str) -> Config:
    """The config that trains the pruned model as a student of the full one.

    Classifiers with our head learn from its scores and the labels, the backbones of other models
    from its maps.
    """
    weights = str(path.resolve())
    checkpoint = str(Path(checkpoint).resolve()) if Path(checkpoint).is_file() else checkpoint
    teacher, student = own_model_config(config), deepcopy(pruned)
    if config.model.get('head', {}).get('type') == 'mmeffvit.ClassifierHead':
        for key in TEACHER:
            teacher.pop(key, None)
        options = dict(teacher=dict(teacher, type='ImageClassifier'), teacher_ckpt=checkpoint)
        student.model = dict(student.model, **options, type='mmeffvit.DistilledClassifier')
        student.model.head.distillation = 'soft'
        student.load_from = weights
        return student
    # mmpretrain's classifiers alone have a default type
    preprocessor = dict(dict(type='ClsDataPreprocessor'), **student.model.data_preprocessor)
    student.model = dict(
        type='mmeffvit.MapDistillation',
        data_preprocessor=preprocessor,
        backbone=dict(student.model.backbone, init_cfg=dict(type='Pretrained', checkpoint=weights)),
        teacher=dict(teacher.backbone, init_cfg=dict(type='Pretrained', checkpoint=checkpoint)),
    )
    hooks = student.get('custom_hooks') or []  # of a run that was distilled
    student.custom_hooks = [hook for hook in hooks if hook['type'] != 'mmeffvit.TeacherHook']
    for stage in ('val', 'test'):
        for part in ('cfg', 'dataloader', 'evaluator'):
            student[f'{stage}_{part}'] = None
    return student


def save(
    loaded: Predictor, config: Config, student: Config, path: Path, pruning: Mapping[str, Any]
) -> None:
    """Write the checkpoint, its config and the config of the student."""
    state = loaded.model.state_dict()
    tensors = {key: value.detach().cpu() for key, value in state.items()}
    meta = dict(dataset_meta=dict(loaded.meta), pruning=dict(pruning))
    with atomic_output(path) as partial:
        content = dict(meta=meta, state_dict=with_grids(tensors, grids_in(state)))
        partial.write_bytes(torch_file(content))
        config.dump(partial.with_suffix('.py'))
        student.dump(distillation_path(partial))
