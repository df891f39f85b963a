"""Losses of a student against a teacher in every step of a run."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmeffvit.config.build import isolated
from mmeffvit.config.datasets import settings_of
from mmeffvit.errors import UserError
from mmeffvit.registries import HOOKS
from mmeffvit.train.checks.run import open_checked
from mmeffvit.train.engine.launcher import unwrap
from mmeffvit.utils.messages import logger
from mmeffvit.utils.modules import normalization
from mmeffvit.utils.text import listed
from mmeffvit.zoo.source import find_source

from .losses import (
    Adapter,
    ChannelWise,
    CrossHead,
    FeatureImitation,
    PixelDivergence,
    common_classes,
    moments_of,
    resize_to,
)

PROBE = 128  # side in pixels of the image that probes the sizes of maps
LOSSES = {'mmdet': ('cwd', 'imitation', 'crosskd'), 'mmseg': ('pixels', 'cwd')}
RATE = 1e-3  # learning rate of the adapters
KEY = 'distillation'  # in a checkpoint

Maps = Sequence[Tensor]


@HOOKS.register_module()
class TeacherHook(Hook):
    """Train with losses against a teacher, in eval mode and without gradients.

    The weights of the student's checkpoints have nothing of the teacher. Losses of
    :mod:`mmeffvit.train.distillation`, by name:

    - of detectors, on the maps of the neck: 'cwd' (normalized), 'imitation' (normalized);
      on the predictions of dense heads: 'crosskd' (CrossKD);
    - of segmentors, on the logits: 'pixels', 'cwd'.

    Args:
        teacher: A config, a run or a saved model.
        checkpoint: Its weights, unless they belong to it.
        losses: Names of losses; None for the first of the task.
        weight: Factor of each loss.
        trusted: Whether a teacher that is a config may be a program; False if this hook comes from
            a config that nobody named.

    Raises:
        UserError: When the run starts, if student and teacher do not fit each other.
    """

    priority = 'NORMAL'

    def __init__(
        self,
        teacher: str,
        checkpoint: str | None = None,
        losses: Sequence[str] | None = None,
        weight: float = 1.0,
        trusted: bool = True,
    ) -> None:
        self.target, self.checkpoint, self.trusted = teacher, checkpoint, trusted
        self.names, self.weight = losses, weight
        self.handles: list[Any] = []
        self.seconds, self.total, self.steps = 0.0, 0.0, 0  # of the teacher, of all

    def before_run(self, runner: Runner) -> None:
        """Open the teacher, and check it before the first step."""
        student, scope = unwrap(runner.model), runner.cfg.default_scope
        source = find_source(self.target, named=self.trusted)
        if source.config.default_scope != scope:
            raise UserError(
                f'the teacher {self.target} is of {source.config.default_scope}, the student of '
                f'{scope}: choose two of one task'
            )
        for name, config in (('student', runner.cfg), ('teacher', source.config)):
            if any(settings_of(config.to_dict(), 'Normalize')):
                raise UserError(
                    f'the {name} normalizes images in its pipeline, and each would see images of '
                    'the other: let its data preprocessor do it'
                )
        device = next(student.parameters()).device
        with isolated(scope):
            opened = open_checked(source, self.checkpoint)
            teacher = opened.model.to(device).eval().requires_grad_(False)
            classes = (runner.train_dataloader.dataset.metainfo['classes'],
                       opened.dataset_meta.get('classes') or ())  # fmt: skip
            kind = DetectorPair if scope == 'mmdet' else SegmentorPair
            self.pair = kind(student, teacher, *common_classes(*classes))
            names = choose_losses(self.names, scope)
            self.losses = {name: self.pair.make_loss(name) for name in names}
            self.pair.adapters.to(device)
        parameters = list(self.pair.adapters.parameters())
        self.optimizer = torch.optim.AdamW(parameters, lr=RATE) if parameters else None

    def before_train(self, runner: Runner) -> None:
        """Attach to the student, which EMA has copied by now."""
        student = unwrap(runner.model)
        self.handles = [
            self.pair.source(student).register_forward_hook(self.keep),
            student.register_forward_hook(self.add_losses, with_kwargs=True),
        ]

    def after_train(self, runner: Runner) -> None:
        for handle in self.handles:
            handle.remove()
        teacher, total = (1000 * part / max(1, self.steps) for part in (self.seconds, self.total))
        logger.info(f'a step took {total:.0f} ms, of which the teacher {teacher:.0f} ms')

    def keep(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        """Keep the maps or logits of the student; called by torch."""
        if module.training:
            self.kept = in_float32(outputs)  # of a mixed-precision student

    def add_losses(self, module: nn.Module, inputs: tuple, named: dict, outputs: Any) -> Any:
        """Add to the losses of a step; called by torch."""
        if named.get('mode') != 'loss' or not module.training:
            return outputs
        images = inputs[0] if inputs else named['inputs']
        start = perf_counter()
        with torch.no_grad():
            known = self.pair.teach(self.pair.converted(images))
        self.seconds += perf_counter() - start
        added = {
            f'loss_distill_{name}': self.weight * loss(self.kept, known)
            for name, loss in self.losses.items()
        }
        return {**outputs, **added}

    def before_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        self.start = perf_counter()

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Train the adapters."""
        self.total, self.steps = self.total + perf_counter() - self.start, self.steps + 1
        if self.optimizer is None:
            return
        gradients = [p.grad for p in self.pair.adapters.parameters() if p.grad is not None]
        if all(bool(gradient.isfinite().all()) for gradient in gradients):  # float16 may overflow
            self.optimizer.step()
        self.optimizer.zero_grad()

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Save the adapters beside the weights of the student, to resume."""
        if self.optimizer is not None:
            states = dict(adapters=self.pair.adapters, optimizer=self.optimizer)
            checkpoint[KEY] = {name: state.state_dict() for name, state in states.items()}

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Load the adapters of a resumed run."""
        if runner._resume and self.optimizer is not None and KEY in checkpoint:
            self.pair.adapters.load_state_dict(checkpoint[KEY]['adapters'])
            self.optimizer.load_state_dict(checkpoint[KEY]['optimizer'])


def in_float32(maps: Any) -> Any:
    """Maps, or nested tuples and lists of them, in float32."""
    return maps.float() if isinstance(maps, Tensor) else type(maps)(map(in_float32, maps))


def choose_losses(names: Sequence[str] | None, scope: str) -> Sequence[str]:
    """The given names of losses of a task, or its first one; a ``UserError`` for unknown ones."""
    known = LOSSES[scope]
    wrong = [name for name in names or () if name not in known]
    if wrong:
        raise UserError(f'no loss of {scope} is named {wrong[0]!r}; choose from {listed(known)}')
    return names or known[:1]


class Pair:
    """A student in training mode, a teacher in eval mode, and labels of their common classes."""

    def __init__(
        self,
        student: nn.Module,
        teacher: nn.Module,
        labels: Sequence[int],
        teacher_labels: Sequence[int],
    ) -> None:
        self.student, self.teacher = student, teacher
        self.labels, self.teacher_labels = list(labels), list(teacher_labels)
        self.adapters = nn.ModuleDict()
        self.normalizations = [normalization(m.data_preprocessor) for m in (student, teacher)]

    def converted(self, images: Tensor) -> Tensor:
        """The student's normalized images, normalized for the teacher, (B, 3, H, W)."""
        (mean, std, is_rgb), (other_mean, other_std, other_is_rgb) = self.normalizations
        images = images * std.to(images) + mean.to(images)
        if is_rgb != other_is_rgb:
            images = images.flip(1)
        return (images - other_mean.to(images)) / other_std.to(images)


class SegmentorPair(Pair):
    """See :class:`Pair`; both return logits."""

    def source(self, student: nn.Module) -> nn.Module:
        """The layer of the student that returns the logits."""
        layer = getattr(getattr(student, 'decode_head', None), 'conv_seg', None)
        if layer is None:
            raise UserError('the head of the student has no layer conv_seg, whose logits can learn')
        return layer

    def teach(self, images: Tensor) -> Tensor:
        return self.teacher(images, None, mode='tensor')

    def make_loss(self, name: str) -> Callable[[Tensor, Tensor], Tensor]:
        if name == 'pixels':
            if len(self.labels) < 2:
                raise UserError(
                    'the loss pixels compares probabilities of two or more classes, and student '
                    'and teacher share one: give --losses cwd'
                )
            return PixelDivergence(1.0, self.labels, self.teacher_labels)
        channels = ChannelWise()
        return lambda ours, theirs: channels(ours[:, self.labels], theirs[:, self.teacher_labels])


class DetectorPair(Pair):
    """See :class:`Pair`; both return maps, and the teacher's head predicts from them."""

    def source(self, student: nn.Module) -> nn.Module:
        """The part of the student that returns the maps."""
        return student.neck if student.with_neck else student.backbone

    def teach(self, images: Tensor) -> Maps:
        return self.teacher.extract_feat(images)

    def make_loss(self, name: str) -> Callable[[Maps, Maps], Tensor]:
        """The loss of a name, which may add adapters."""
        ours, theirs = (probe(model) for model in (self.student, self.teacher))
        if name == 'crosskd':
            return self.make_cross(ours, theirs)
        loss = (ChannelWise if name == 'cwd' else FeatureImitation)(normalize=True)
        levels = [(i, nearest(stride, theirs)) for i, (_, stride) in enumerate(ours)]
        adapters = self.add_adapters(name, [(ours[i][0], theirs[j][0]) for i, j in levels])

        def on_maps(student: Maps, teacher: Maps) -> Tensor:
            pairs = zip(levels, adapters, strict=True)
            losses = [loss(adapt(student[i]), teacher[j]) for (i, j), adapt in pairs]
            return torch.stack(losses).mean()

        return on_maps

    def make_cross(self, ours: list, theirs: list) -> Callable[[Maps, Maps], Tensor]:
        head = dense_head(self.teacher)
        levels = [nearest(stride, ours) for _, stride in theirs]
        channels = [(ours[i][0], size) for i, (size, _) in zip(levels, theirs, strict=True)]
        adapters, loss = self.add_adapters('crosskd', channels), CrossHead()

        def across(student: Maps, teacher: Maps) -> Tensor:
            crossed = [
                moments_of(resize_to(adapt(student[i]), maps), maps)
                for i, adapt, maps in zip(levels, adapters, teacher, strict=True)
            ]
            logits, boxes = predictions(head, crossed)
            with torch.no_grad():
                targets, target_boxes = predictions(head, teacher)
            labels = self.teacher_labels
            return loss(logits[:, labels], boxes, targets[:, labels], target_boxes)

        return across

    def add_adapters(self, name: str, channels: Sequence[tuple[int, int]]) -> nn.ModuleList:
        """A layer for each pair of channels, an identity where they are equal."""
        layers = nn.ModuleList(nn.Identity() if a == b else Adapter(a, b) for a, b in channels)
        self.adapters[name] = layers
        return layers


@torch.no_grad()
def probe(model: nn.Module) -> list[tuple[int, float]]:
    """Channels and stride of the maps of a detector."""
    was_training, device = model.training, next(model.parameters()).device
    maps = model.eval().extract_feat(torch.zeros(1, 3, PROBE, PROBE, device=device))
    model.train(was_training)
    return [(m.shape[1], PROBE / m.shape[-1]) for m in maps]


def nearest(stride: float, levels: Sequence[tuple[int, float]]) -> int:
    """The level with the nearest stride, by its ratio."""
    ratios = [max(stride / other, other / stride) for _, other in levels]
    return ratios.index(min(ratios))


def dense_head(model: nn.Module) -> nn.Module:
    """The head of a one-stage detector with sigmoid scores and four numbers for each box."""
    head = getattr(model, 'bbox_head', None)
    parts = ('prior_generator', 'bbox_coder', 'use_sigmoid_cls')
    is_dense = all(hasattr(head, part) for part in parts) and not hasattr(head, 'integral')
    if not is_dense or not head.use_sigmoid_cls:
        raise UserError(
            f'the teacher has {type(head).__name__}, not a dense head with sigmoid scores such as '
            "RetinaNet's or RTMDet's: choose the loss 'cwd'"
        )
    return head


def predictions(head: nn.Module, maps: Maps) -> tuple[Tensor, Tensor]:
    """Predictions of a dense head at all locations of a batch: logits (N, C), boxes (N, 4)."""
    scores, deltas = head(tuple(maps))[:2]
    sizes = [score.shape[-2:] for score in scores]
    priors = head.prior_generator.grid_priors(sizes, device=scores[0].device)
    logits, boxes = [], []
    for prior, score, delta in zip(priors, scores, deltas, strict=True):
        batch = len(score)
        flat = delta.permute(0, 2, 3, 1).reshape(-1, 4)
        logits.append(score.permute(0, 2, 3, 1).reshape(-1, head.cls_out_channels))
        boxes.append(head.bbox_coder.decode(prior.repeat(batch, 1), flat))
    return torch.cat(logits), torch.cat(boxes)
