"""The base class of all backbones: declared attributes, outputs and frozen stages."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypedDict, TypeVar

import torch
from mmengine.logging import MMLogger
from mmengine.model import BaseModule
from torch import Tensor, is_grad_enabled, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from mmeffvit.utils.messages import logger
from mmeffvit.utils.quiet import replaced

from .checkpoints import Checkpoint, Layout, LoadReport, load_into, open_checkpoint
from .checkpoints.pretrained import check_keys, split_pretrained
from .layers.grid import Grid, Gridded
from .layers.head_projections import hidden_layers, keep_first, prunable_layers

State = TypeVar('State')  # what blocks pass on: a map, in most families

MIN_SIDE = 32  # pixels: a smaller image has less than one cell at stride 32
FINEST_OUTPUT_STRIDE = 8


def resolve_out_indices(out_indices: Sequence[int], num_stages: int) -> tuple[int, ...]:
    """Return ``out_indices`` counted from the first stage; negative ones count from the last."""
    if isinstance(out_indices, int):
        raise ValueError(f'out_indices is {out_indices}; give a sequence, such as ({out_indices},)')
    counted = tuple(i + num_stages if i < 0 else i for i in out_indices)
    in_range = all(0 <= i < num_stages for i in counted)
    if not counted or not in_range or list(counted) != sorted(set(counted)):
        raise ValueError(
            f'out_indices is {tuple(out_indices)}; choose stages from {-num_stages} to '
            f'{num_stages - 1}, each once and in ascending order'
        )
    return counted


@dataclass(frozen=True)
class Sampling:
    """Stride and dilation of a stage, in pixels of its input and of its own map."""

    stride: int  # of the downsampling: 1 where the stage is dilated instead
    downsample_dilation: int = 1  # which the previous stage has
    dilation: int = 1  # of the blocks


def resolve_output_stride(
    output_stride: int, strides: Sequence[int], stem_stride: int
) -> tuple[tuple[int, ...], list[Sampling]]:
    """Strides of at most ``output_stride``, and the sampling of every stage that has them.

    Each omitted halving doubles the dilation of what comes after it (the hole algorithm,
    arXiv:1606.00915): for convolutions, every 2nd or 4th pixel of the finer map equals the
    coarse map's, with the same weights.

    Args:
        output_stride: The coarsest stride; one of ``strides``, 8 or more.
        strides: Strides of all stages without dilation.
        stem_stride: Stride of the input of the first stage.
    """
    choices = [stride for stride in reversed(strides) if stride >= FINEST_OUTPUT_STRIDE]
    if output_stride not in choices:
        raise ValueError(f'output_stride is {output_stride!r}; choose one of {choices}')
    kept = [min(stride, output_stride) for stride in (stem_stride, *strides)]
    dilations = [full // own for full, own in zip((stem_stride, *strides), kept, strict=True)]
    samplings = [
        Sampling(kept[i + 1] // kept[i], dilations[i], dilations[i + 1])
        for i in range(len(strides))
    ]
    return tuple(kept[1:]), samplings


def cells(resolution: int | tuple[int, int], stride: int) -> tuple[int, int]:
    """Rows and columns, rounded up, of the map at a stride of an image of this size."""
    height, width = (resolution,) * 2 if isinstance(resolution, int) else resolution
    if min(height, width) < 1:
        raise ValueError(f'resolution is {(height, width)}; both sides must be at least 1')
    return -(-height // stride), -(-width // stride)


def drop_probs(drop_path_rate: float, depths: Sequence[int], index: int) -> list[float]:
    """Drop probabilities of a stage's blocks, increasing linearly over the network."""
    if not 0 <= drop_path_rate < 1:
        raise ValueError(f'drop_path_rate is {drop_path_rate}; it must be in [0, 1)')
    first, steps = sum(depths[:index]), max(sum(depths) - 1, 1)
    return [drop_path_rate * (first + i) / steps for i in range(depths[index])]


class BackboneOptions(TypedDict, total=False):
    """Options of every backbone that a family passes on to :class:`Backbone`."""

    frozen_stages: int
    norm_eval: bool
    with_cp: bool
    init_cfg: dict | list[dict] | None
    kept_heads: Sequence[int] | None
    kept_neurons: Sequence[int] | None


class Stage(nn.Module):
    """A module that maps to the resolution of the stage, followed by blocks in their order."""

    def __init__(self, downsample: nn.Module, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.downsample = downsample
        self.blocks = nn.ModuleList(blocks)
        self.with_cp = False  # recompute the downsampling and each block in backward

    def forward(self, x: State) -> State:
        recompute = self.with_cp and self.training and is_grad_enabled()
        for step in (self.downsample, *self.blocks):
            x = recomputed(step, x) if recompute else step(x)
        return x


def recomputed(block: nn.Module, x: State) -> State:
    """Run ``block(x)`` with activation checkpointing: it is recomputed in backward."""
    if torch.compiler.is_compiling():  # it runs a block twice without updating its statistics twice
        return checkpoint(block, x, use_reentrant=False)
    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (nullcontext(), frozen_statistics(block))
    )


@contextmanager
def frozen_statistics(block: nn.Module) -> Iterator[None]:
    """Do not update the running statistics of ``block`` while it runs in train mode.

    Activation checkpointing runs a block again in backward; without this, every batch would update
    the running mean and variance twice.
    """
    norms = [m for m in block.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    kept = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm, (_, count) in zip(norms, kept, strict=True):
        norm.momentum = 0.0
        norm.num_batches_tracked = count.clone()  # SyncBatchNorm takes no None
    try:
        yield
    finally:
        for norm, (momentum, count) in zip(norms, kept, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count


def check_image(x: Tensor) -> None:
    """Reject anything but color images (B, 3, H, W) large enough for the coarsest maps."""
    if x.ndim != 4 or x.shape[1] != 3 or min(x.shape[2:]) < MIN_SIDE:
        raise ValueError(
            f'the input has shape {tuple(x.shape)}; give (batch, 3, height, width) with height and '
            f'width of at least {MIN_SIDE} pixels'
        )


def log_report(report: LoadReport) -> None:
    """Log counts, and at level DEBUG every tensor, to the package's logger and the log of a run."""
    run = MMLogger.get_current_instance()
    is_run = any(isinstance(handler, logging.FileHandler) for handler in run.handlers)
    for target in (logger, run) if is_run else (logger,):
        target.info(str(report))
        target.debug(report.by_tensor())


class Backbone(BaseModule):
    """A stem and stages that return the maps of the selected stages, for any height and width.

    Stages after the last selected one are not built, so that every parameter gets a gradient.

    Args:
        stem: Maps the image to the input of the first stage.
        make_stage: Builds a stage by its index; called up to the last of ``out_indices``.
        channels: Channels of every stage of the variant.
        strides: Input pixels per feature pixel of every stage of the variant.
        out_indices: Stages whose maps are returned; negative ones count from the last.
        outputs: Builds the module that is applied to the returned map of a stage; None returns it
            unchanged.
        frozen_stages: -1 freezes nothing, 0 the stem, n the stem and the first n stages: no
            gradients, and batch norms stay in eval mode. Output norms are never frozen, since
            classifier checkpoints do not contain them.
        norm_eval: Keep all batch norms in eval mode while training.
        with_cp: Activation checkpointing: recompute each block in backward to save memory.
        init_cfg: ``dict(type='Pretrained', checkpoint=...)`` loads released weights with remapped
            keys, see :meth:`load_pretrained`, after other initializers of a list: mmengine's.
        kept_heads: For a pruned model, the number of heads of each layer with Mobile-Attention, in
            the order of the network; None for all heads. See :mod:`mmeffvit.analysis.pruning`.
        kept_neurons: The same for the hidden units of each feed-forward layer.

    Shape:
        (B, 3, H, W), with H and W of at least 32 ->
        a tuple of (B, channels[i], ceil(H / strides[i]), ceil(W / strides[i])).

    Attributes:
        channels: Channels of the returned maps.
        strides: Strides of the returned maps.
        variants: The variant table of the family, by ``arch``.
        attentions: The names that `attention` takes.
        feature_info: Channels, stride and module name of every returned map under timm's keys
            `num_chs`, `reduction` and `module`; ``get_submodule`` returns the module, and a forward
            hook on it sees the map.
        layouts: Layouts of released checkpoints that the family can load.
        unused: Pattern of remapped keys that are ignored if the backbone does not have them.
        input_mean: Mean of the red, green and blue channel, from 0 to 255, that the released
            weights expect.
        input_std: Standard deviation of each channel that they expect.
        size_divisor: For images padded to a multiple of it, maps have exactly the declared strides.
    """

    variants: Mapping[str, Any] = {}
    attentions: Collection[str] = ()
    layouts: tuple[Layout, ...] = ()
    unused = '(?!)'  # matches nothing
    input_mean: tuple[float, float, float] = (123.675, 116.28, 103.53)
    input_std: tuple[float, float, float] = (58.395, 57.12, 57.375)
    size_divisor = 1

    def __init__(
        self,
        stem: nn.Module,
        make_stage: Callable[[int], Stage],
        *,
        channels: Sequence[int],
        strides: Sequence[int],
        out_indices: Sequence[int],
        outputs: Callable[[int], nn.Module] | None = None,
        frozen_stages: int = -1,
        norm_eval: bool = False,
        with_cp: bool = False,
        init_cfg: dict | list[dict] | None = None,
        kept_heads: Sequence[int] | None = None,
        kept_neurons: Sequence[int] | None = None,
    ) -> None:
        super().__init__(init_cfg)
        out_indices = resolve_out_indices(out_indices, len(channels))
        stages = [make_stage(index) for index in range(out_indices[-1] + 1)]
        if not -1 <= frozen_stages <= len(stages):
            raise ValueError(f'frozen_stages is {frozen_stages}; choose -1 to {len(stages)}')
        self.stem = stem
        self.stages = nn.ModuleList(stages)
        self.output_norms = nn.ModuleDict(
            {str(i): outputs(i) if outputs else nn.Identity() for i in out_indices}
        )
        self.out_indices = out_indices
        self.num_stages = len(channels)
        self.channels = tuple(channels[i] for i in out_indices)
        self.strides = tuple(strides[i] for i in out_indices)
        place = 'output_norms' if outputs else 'stages'
        self.feature_info = [
            dict(num_chs=channels[i], reduction=strides[i], module=f'{place}.{i}')
            for i in out_indices
        ]
        self.frozen_stages = frozen_stages
        self.norm_eval = norm_eval
        for stage in stages:
            stage.with_cp = with_cp
        if kept_heads is not None:
            keep_first(prunable_layers(self), kept_heads, 'kept_heads')
        if kept_neurons is not None:
            keep_first(hidden_layers(self), kept_neurons, 'kept_neurons')
        for module in self._frozen_modules():
            module.requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        check_image(x)
        x = self.stem(x)
        maps = []
        for index, stage in enumerate(self.stages):
            x = stage(x)
            if index in self.out_indices:
                maps.append(self.output_norms[str(index)](x))
        return tuple(maps)

    def train(self, mode: bool = True) -> 'Backbone':
        """Set the mode of all modules except frozen ones and norms kept in eval mode."""
        super().train(mode)
        for module in self._frozen_modules():
            module.eval()
        if self.norm_eval:
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self

    def init_weights(self) -> None:
        """Load the checkpoint given by ``init_cfg``, or initialize as mmengine does.

        Raises:
            mmeffvit.models.checkpoints.CheckpointError: If the checkpoint cannot be found or does
                not fit.
            ValueError: If an argument of it has no effect.
        """
        loading, others = split_pretrained(self.init_cfg)
        if self.is_init or not loading:
            super().init_weights()
            return
        for part in loading:
            check_keys(part)
        if others:
            with replaced(self, 'init_cfg', others):
                super().init_weights()
        for part in loading:
            self.load_pretrained(part['checkpoint'], prefix=part.get('prefix'))
        self.is_init = True

    def load_pretrained(
        self, checkpoint: str | PathLike | Checkpoint, *, prefix: str | None = None
    ) -> LoadReport:
        """Load released weights, official or timm's, and log one line that counts the tensors.

        Keys of the classifier and of stages that this backbone does not build are ignored; output
        norms may be missing and keep their initial values.

        Args:
            checkpoint: A path, an http(s) URL, ``hf://OWNER/REPOSITORY`` or an open checkpoint; see
                :func:`mmeffvit.models.checkpoints.open_checkpoint`.
            prefix: Use only the keys with this prefix, and strip it.

        Returns:
            The report; its ``by_tensor()`` is logged at level DEBUG.

        Raises:
            mmeffvit.models.checkpoints.CheckpointError: If it cannot be found or read, or does not
                fit; the backbone is then unchanged.
        """
        report = load_into(self, open_checkpoint(checkpoint), prefix=prefix)
        log_report(report)
        return report

    def unused_keys(self) -> dict[str, str]:
        """Patterns of remapped keys that this backbone may lack, with the reason."""
        unbuilt = '|'.join(map(str, range(len(self.stages), self.num_stages))) or '(?!)'
        return {
            r'^output_norms\.': 'this map has no output norm here',
            rf'^stages\.({unbuilt})\.': 'no map of this stage is returned',
            self.unused: f'{type(self).__name__} has no such layer in this form',
        }

    def adapt_weights(
        self, state: Mapping[str, Tensor], grids: Mapping[str, Grid] | None
    ) -> dict[str, Tensor]:
        """Return the tensors of other grids, resized to ``resolution``.

        Args:
            state: Tensors by our keys.
            grids: The grids of tensors in our layout, where they were saved; None for an official
                layout, whose grids are square.
        """
        adapted = {}
        for name, module in self.named_modules():
            key = f'{name}.{module.gridded}' if isinstance(module, Gridded) else ''
            if key in state:
                square = grids is None and module.square(state[key])
                tensor = module.resized(state[key], square or (grids or {}).get(key, module.grid))
                adapted |= {} if tensor is state[key] else {key: tensor}
        return adapted

    def _frozen_modules(self) -> list[nn.Module]:
        if self.frozen_stages < 0:
            return []
        return [self.stem, *self.stages[: self.frozen_stages]]
