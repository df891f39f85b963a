"""Load a checkpoint into a module, with every tensor accounted for."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from mmeffvit.errors import CheckpointError
from mmeffvit.registries import families
from mmeffvit.utils.text import counted, escape, listed

from .checkpoint import Checkpoint
from .heads import CLASSIFIER
from .rename import recognize, rename
from .state import grids_in, with_grids

NO_PART = 'no part of a backbone'
AUXILIARY = 'auxiliary_head.'  # only used in training
COUNTERS = r'\.num_batches_tracked$'  # some releases lack them: no effect at a fixed momentum
MAY_LACK = rf'{COUNTERS}|^output_norms\.'  # tensors of a backbone that releases may lack
# of attention layers that replace the one of a release, which has none of them
NEW_LAYERS = r'\.attention\.mix(er)?\.(excite|squeeze|gate|conv|key_summary|query_summary)\.'


class MisfitError(CheckpointError):
    """A checkpoint that does not fit a module: what does not, and the fix."""

    def __init__(self, checkpoint: Checkpoint, layout: str, complaint: str) -> None:
        self.checkpoint, self.layout, self.complaint = checkpoint, layout, complaint
        super().__init__(self.text())

    def text(self, what: str = '') -> str:
        """The message, with what the checkpoint is."""
        return f'{self.checkpoint}{what} does not fit the model. {self.complaint}'


@dataclass(frozen=True)
class LoadReport:
    """What happened to every tensor, by key; unexpected tensors raise an error instead."""

    checkpoint: str
    layout: str
    loaded: tuple[str, ...]
    resized: tuple[str, ...]
    dropped: tuple[str, ...]
    missing: tuple[str, ...]
    reordered: tuple[str, ...] = ()
    reinitialized: tuple[str, ...] = ()  # randomly initialized for another number of classes
    reasons: Mapping[str, str] = field(default_factory=dict)  # why a key is ignored

    def __str__(self) -> str:
        resized = f'{len(self.resized)} of them resized, ' if self.resized else ''
        reordered = f'{len(self.reordered)} of them reordered, ' if self.reordered else ''
        count = len(self.reinitialized)
        random = f', {count} randomly initialized for other classes' if count else ''
        loaded = counted(len(self.loaded), 'tensor')
        return (
            f'{self.checkpoint} ({self.layout} layout): {loaded} loaded, '
            f'{reordered}{resized}{len(self.dropped)} ignored, {len(self.missing)} missing{random}'
        )

    def by_tensor(self) -> str:
        """A line per tensor: the loaded and how, the ignored and why, the randomly initialized."""
        changed = dict.fromkeys(self.reordered, ', reordered') | dict.fromkeys(
            self.resized, ', resized'
        )
        lines = [f'loaded      {key}{changed.get(key, "")}' for key in self.loaded]
        lines += [f'ignored     {key}: {self.reasons.get(key, NO_PART)}' for key in self.dropped]
        lines += [f'randomly initialized {key}' for key in (*self.missing, *self.reinitialized)]
        return '\n'.join(map(escape, lines))  # a key may be any text


@dataclass(frozen=True)
class Match:
    """The tensors of a checkpoint by the keys of a module."""

    checkpoint: Checkpoint
    state: Mapping[str, Tensor]
    target: Mapping[str, Tensor]  # the state dict of the module
    report: LoadReport
    may_lack: str  # pattern of keys of the module that the file may lack
    is_backbone: bool
    exact: bool = False  # the dtypes must be equal: a run resumes with its own numbers

    def shaped(self) -> dict[str, Tensor]:
        """The tensors in the shapes of the module."""
        return {
            key: value.reshape(self.target[key].shape) if key in self.target else value
            for key, value in self.state.items()
        }

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Keys of the module that the file lacks and must not lack."""
        known = {*self.state, *self.report.reinitialized}
        return [key for key in keys if key not in known and not re.search(self.may_lack, key)]

    def require_fit(self, missing: Sequence[str] = (), left_over: Sequence[str] = ()) -> None:
        """Reject tensors of another shape or kind, and missing and unexpected ones."""
        both = {key: value for key, value in self.state.items() if key in self.target}
        wrong = [
            f'{key}: {tuple(value.shape)} in the file, {tuple(self.target[key].shape)} in the model'
            for key, value in both.items()
            if not same_size(value, self.target[key])
        ]
        complaints = [
            f'{title} ({len(items)}): ' + '; '.join(sorted(items)[:8]) + (' ...' * (len(items) > 8))
            for title, items in (
                ('missing in the file', missing),
                ('not in the model', left_over),
                ('of another shape', wrong),
                ('of another kind', wrong_kinds(both, self.target, exact=self.exact)),
            )
            if items
        ]
        if not complaints:
            return
        of_backbone = 'Is `arch` the variant of the checkpoint?'
        advice = of_backbone if self.is_backbone else 'Use the config that it belongs to.'
        raise MisfitError(self.checkpoint, self.report.layout, f'{". ".join(complaints)}. {advice}')


def fit(
    module: nn.Module,
    checkpoint: Checkpoint,
    *,
    prefix: str | None = None,
    new_classes: bool = False,
) -> tuple[dict[str, Tensor], LoadReport]:
    """The tensors of a checkpoint with the keys and shapes of a module.

    Args:
        module: A backbone of ours, which takes its part of any release, or a full model.
        checkpoint: The checkpoint.
        prefix: Prefix of the backbone's keys in the file, if it is unusual.
        new_classes: Leave layers for another number of classes unchanged.

    Returns:
        The tensors to load, with the grids of the module, and a report of all.

    Raises:
        CheckpointError: If a tensor is missing, unexpected or of another shape or kind.
    """
    match = _match(module, checkpoint, prefix, new_classes, resume=False)
    left_over = [key for key in match.state if key not in match.target]
    match.require_fit(match.missing(match.target), left_over)
    return with_grids(match.shaped(), grids_in(match.target)), match.report


def load_into(
    module: nn.Module,
    checkpoint: Checkpoint,
    *,
    prefix: str | None = None,
    new_classes: bool = False,
    resume: bool = False,
) -> LoadReport:
    """Load the tensors of :func:`fit`, whose arguments it takes, all of them or none.

    Modules that convert the keys of earlier versions, as some of mmdet do, still do. With
    ``resume``, where training continues, auxiliary heads and exact dtypes are needed.

    Raises:
        CheckpointError: If it does not fit; the module is unchanged then.
    """
    match = _match(module, checkpoint, prefix, new_classes, resume)
    match.require_fit()
    before = {key: value.clone() for key, value in match.target.items()}
    try:
        result = module.load_state_dict(match.shaped(), strict=False)
        match.require_fit(match.missing(result.missing_keys), result.unexpected_keys)
    except Exception as error:  # RuntimeError by default, else what a module's own hooks raise
        module.load_state_dict(before)
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f'{checkpoint} cannot be loaded: {error}') from error
    return match.report


def _match(
    module: nn.Module, checkpoint: Checkpoint, prefix: str | None, new_classes: bool, resume: bool
) -> Match:
    checkpoint = as_named_in(module, checkpoint)
    if hasattr(module, 'layouts'):
        return _match_backbone(module, checkpoint, prefix)
    return _match_model(module, checkpoint, new_classes, resume)


def as_named_in(module: nn.Module, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint of a release with its original keys, if a module has them, as timm's do."""
    original = checkpoint.original
    is_original = original is not None and original.weights.keys() <= module.state_dict().keys()
    return original if original is not None and is_original else checkpoint


def _match_backbone(module: nn.Module, checkpoint: Checkpoint, prefix: str | None) -> Match:
    tensors, outside = checkpoint.backbone_tensors(prefix)
    layout = recognize(tensors, module.layouts)
    if layout is None:
        markers = ', '.join(f'{entry.marker!r} ({entry.name})' for entry in module.layouts)
        raise CheckpointError(
            f'{checkpoint} is not a checkpoint of {type(module).__name__}: no key matches '
            f'{markers}. Its first keys are {sorted(tensors)[:5]}.'
        )
    renamed, dropped = rename(tensors, layout.table)
    target = module.state_dict()
    unused = {**module.unused_keys(), COUNTERS: 'a BatchNorm counter that this model does not have'}
    reasons = {
        old: next(reason for pattern, reason in unused.items() if re.search(pattern, new))
        for old, new in renamed.items()
        if new not in target and any(re.search(pattern, new) for pattern in unused)
    }
    state = {new: tensors[old] for old, new in renamed.items() if old not in reasons}
    release = None if prefix else checkpoint.release
    is_ours = not layout.table and not release
    resized = module.adapt_weights(state, checkpoint.grids_of(state) if is_ours else None)
    state |= resized
    report = LoadReport(
        checkpoint=str(checkpoint),
        layout=release.layout if release else layout.name,
        loaded=tuple(state),
        resized=tuple(resized),
        dropped=(*outside, *dropped, *reasons),
        missing=tuple(key for key in target if key not in state),
        reordered=_reordered(checkpoint, state),
        reasons=reasons,
    )
    has_new = any(re.search(NEW_LAYERS, key) for key in state)
    may_lack = MAY_LACK if has_new else f'{MAY_LACK}|{NEW_LAYERS}'
    return Match(checkpoint, state, target, report, may_lack, is_backbone=True)


def _match_model(
    module: nn.Module, checkpoint: Checkpoint, new_classes: bool, resume: bool
) -> Match:
    _require_heads(module, checkpoint)
    release, head = checkpoint.release, checkpoint.head
    target, weights = module.state_dict(), dict(checkpoint.weights)
    resized = resize_backbone(module, checkpoint)
    if resume and resized:
        raise CheckpointError(
            f'{checkpoint} cannot be resumed: {listed(resized)} are of another resolution'
        )
    weights |= resized
    reinitialized = [
        key
        for key, value in weights.items()
        if new_classes and head is not None and re.search(head.per_class, key) and key in target
        and len(value) != len(target[key]) and value.shape[1:] == target[key].shape[1:]
    ]  # fmt: skip
    has_auxiliary = [any(key.startswith(AUXILIARY) for key in keys) for keys in (weights, target)]
    unused = [key for key in weights if key.startswith(AUXILIARY) and not has_auxiliary[1]]
    state = {key: value for key, value in weights.items() if key not in (*reinitialized, *unused)}
    report = LoadReport(
        checkpoint=str(checkpoint),
        layout=release.layout if release else 'mmeffvit',
        loaded=tuple(state),
        resized=tuple(resized),
        dropped=(*(release.ignored if release else ()), *unused),
        missing=tuple(key for key in target if key not in state and key not in reinitialized),
        reordered=_reordered(checkpoint, state),
        reinitialized=tuple(reinitialized),
    )
    may_lack = COUNTERS
    if not has_auxiliary[0] and not resume:
        may_lack += rf'|^{re.escape(AUXILIARY)}'
    return Match(checkpoint, state, target, report, may_lack, is_backbone=False, exact=resume)


def _reordered(checkpoint: Checkpoint, state: Mapping[str, Tensor]) -> tuple[str, ...]:
    keys = checkpoint.release.reordered if checkpoint.release else ()
    return tuple(key for key in keys if key in state)


def _require_heads(module: nn.Module, checkpoint: Checkpoint) -> None:
    """Reject a backbone in place of a full model."""
    target = module.state_dict()
    has_classifier = any(key.startswith('head.') for key in target)
    tensors, outside = checkpoint.backbone_tensors()
    is_alone = (
        not outside
        and not any(key in target for key in tensors)  # another model of that name
        and any(recognize(tensors, family.layouts) for family in families().values())
    )
    if is_alone or (checkpoint.head is CLASSIFIER and not has_classifier):
        raise CheckpointError(
            f'{checkpoint} holds only a backbone: the neck and the heads of the model are '
            'missing. Train them, with the file as model.backbone.init_cfg.checkpoint'
        )


def resize_backbone(module: nn.Module, checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Tensors of a full model, by key, that must be resized to fit its backbone."""
    adapt = getattr(getattr(module, 'backbone', None), 'adapt_weights', None)
    if adapt is None:
        return {}
    prefix, weights = 'backbone.', checkpoint.weights
    inside = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
    adapted = adapt(inside, None if checkpoint.release else checkpoint.grids_of(inside))
    return {prefix + key: value for key, value in adapted.items()}


def wrong_kinds(
    state: Mapping[str, Tensor], target: Mapping[str, Tensor], *, exact: bool = False
) -> list[str]:
    """Tensors of integers, booleans or complex numbers in place of floats, sparse, on meta.

    Copying would silently change their values. Floats of another width are fine, unless the dtypes
    must be ``exact``.
    """
    return [
        f'{key}: {value.dtype}{" (sparse)" * (value.layout != torch.strided)}'
        f'{" (without values)" * value.is_meta} in the file, '
        f'{target[key].dtype} in the model'
        for key, value in state.items()
        if key in target
        and (
            value.is_floating_point() != target[key].is_floating_point()
            or value.is_complex() != target[key].is_complex()
            or (value.dtype == torch.bool) != (target[key].dtype == torch.bool)
            or value.layout != torch.strided
            or value.is_meta > target[key].is_meta
            or (exact and value.dtype != target[key].dtype)
        )
    ]


def same_size(tensor: Tensor, other: Tensor) -> bool:
    """Whether the shapes agree except for ones, as of a linear layer and a 1x1 convolution."""
    dense, other_dense = ([side for side in t.shape if side != 1] for t in (tensor, other))
    return dense == other_dense
