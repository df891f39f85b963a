"""Deformable DETR with a single head in some layers (arXiv:2401.16456, appendix)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from mmcv.cnn.bricks.transformer import FFN
from mmcv.ops import MultiScaleDeformableAttention
from mmdet.models.detectors import DeformableDETR
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmeffvit.registries import MODELS


def initial_offsets(num_levels: int, num_points: int) -> Tensor:
    """Initial sampling offsets of a single head, distributed around its reference point.

    arXiv:2010.04159 assigns one direction to each head, so a single head would sample along the +x
    axis only. Here point p of level l is ``p + 1`` cells away (in the larger of the two
    coordinates) in direction ``2 pi (l + p) / num_points``: the points of a level cover all
    directions, and with as many levels as points every direction has every distance once.

    Shape:
        -> (num_levels, num_points, 2), x and y in cells of the level.
    """
    level = torch.arange(num_levels)[:, None]
    point = torch.arange(num_points)
    angle = (level + point) * (2 * math.pi / num_points)
    direction = torch.stack([angle.cos(), angle.sin()], dim=-1)
    direction = direction / direction.abs().amax(dim=-1, keepdim=True)
    return direction * (point + 1)[:, None]


class ProjectedDeformableAttention(MultiScaleDeformableAttention):
    """Multi-scale deformable attention (arXiv:2010.04159) with one head, narrower than its input.

    ``y = identity + W_o sum_i(a_i * (W_v v)[r + o_i])`` over the points i of all levels, with
    ``a = softmax(W_a q)``, ``o = W_s q`` and bilinear sampling at the reference point r plus o.
    W_v projects all channels down to the attended ones and W_o projects them back up.

    Args:
        channels: C, channels of queries and values.
        attended: Channels of the head, in [1, C].
        sampling: `num_levels` of maps, `num_points` per map, `dropout` of the output, and
            `im2col_step` images per call of the CUDA operator, with mmcv's defaults.

    Shape:
        Queries (B, N, C) and values (B, V, C), V the cells of all levels -> (B, N, C).

    Raises:
        ValueError: If ``attended`` is out of range.
    """

    def __init__(self, channels: int, attended: int, **sampling: float) -> None:
        if not 1 <= attended <= channels:
            raise ValueError(f'attended is {attended}; choose 1 to {channels}')
        super().__init__(
            embed_dims=channels,
            num_heads=1,
            batch_first=True,
            value_proj_ratio=(attended + 0.5) / channels,  # the product is rounded down
            **sampling,
        )

    def init_weights(self) -> None:
        super().init_weights()
        with torch.no_grad():
            offsets = initial_offsets(self.num_levels, self.num_points)
            self.sampling_offsets.bias.copy_(offsets.flatten())


class SplitDeformableAttention(BaseModule):
    """Deformable attention with one head on the first channels; remaining channels bypass it.

    ``y = identity + W_o [sum_i(a_i * (W_v v_1)[r + o_i]), q_2]`` with v_1 the attended channels of
    the values and q_2 the remaining channels of the queries without positional encoding; a and o
    are computed from all channels of the queries, like :class:`ProjectedDeformableAttention`.

    Args:
        channels: C, channels of queries and values.
        attended: Channels of v_1, in [1, C].
        dropout: Probability of dropping an output value, in [0, 1).
        sampling: `num_levels`, `num_points`, `im2col_step` of
            :class:`ProjectedDeformableAttention`.

    Shape:
        Queries (B, N, C) and values (B, V, C), V the cells of all levels -> (B, N, C).

    Raises:
        ValueError: If ``attended`` is out of range.
    """

    def __init__(
        self, channels: int, attended: int, *, dropout: float = 0.1, **sampling: int
    ) -> None:
        super().__init__()
        self.attended = attended
        self.attention = ProjectedDeformableAttention(channels, attended, dropout=0.0, **sampling)
        # the head uses the attended channels only; its output is concatenated before W_o
        self.attention.value_proj = nn.Linear(attended, attended)
        self.attention.output_proj = nn.Identity()
        self.output_proj = nn.Linear(channels, channels)
        self.dropout = nn.Dropout(dropout)
        self.init_weights()

    def init_weights(self) -> None:
        self.attention.init_weights()
        nn.init.xavier_uniform_(self.output_proj.weight)
        nn.init.zeros_(self.output_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        identity: Tensor | None = None,
        **sampling: Any,
    ) -> Tensor:
        """Attend; the arguments follow mmcv's module, which never reads ``key``."""
        value = query if value is None else value
        identity = query if identity is None else identity
        found = self.attention(
            query, value=value[..., : self.attended], identity=0.0, **sampling
        )  # (B, N, attended)
        joined = torch.cat([found, query[..., self.attended :]], dim=-1)
        return identity + self.dropout(self.output_proj(joined))


ATTENTIONS = {'split': SplitDeformableAttention, 'projected': ProjectedDeformableAttention}


@dataclass(frozen=True)
class SingleHeadLayers:
    """Which layers get a single head, and its settings."""

    encoder: Sequence[int] = (1, 2, 3)  # layers whose self-attention is replaced, counted from 0
    decoder: Sequence[int] = (1, 2, 3)  # layers whose cross-attention is replaced
    attended: int = 64  # channels of the head
    attention: str = 'split'  # or 'projected'
    ffn_channels: int | None = None  # hidden channels in these layers; None as in the others

    def __post_init__(self) -> None:
        if self.attention not in ATTENTIONS:
            choices = ', '.join(map(repr, ATTENTIONS))
            raise ValueError(f'attention is {self.attention!r}; choose one of {choices}')
        if self.ffn_channels is not None and self.ffn_channels < 1:
            raise ValueError(f'ffn_channels is {self.ffn_channels}; it must be at least 1')

    def apply(self, layers: nn.ModuleList, stack: str, attribute: str) -> None:
        """Replace the attention of layers, and their feed-forward if ``ffn_channels`` is set."""
        indices = getattr(self, stack)
        if len(set(indices)) != len(indices) or any(not 0 <= i < len(layers) for i in indices):
            raise ValueError(
                f'single_head.{stack} is {tuple(indices)}; choose layers from 0 to '
                f'{len(layers) - 1}, each once'
            )
        for index in indices:
            self.replace(layers[index], attribute)

    def replace(self, layer: nn.Module, attribute: str) -> None:
        stock = getattr(layer, attribute)
        replacement = ATTENTIONS[self.attention](
            stock.embed_dims,
            self.attended,
            num_levels=stock.num_levels,
            num_points=stock.num_points,
            dropout=stock.dropout.p,
            im2col_step=stock.im2col_step,
        )
        setattr(layer, attribute, replacement)
        if self.ffn_channels is not None:
            layer.ffn = FFN(**{**layer.ffn_cfg, 'feedforward_channels': self.ffn_channels})


@MODELS.register_module()
class SingleHeadDeformableDETR(DeformableDETR):
    """Deformable DETR (arXiv:2010.04159) with a single head in the middle layers.

    arXiv:2401.16456 gives the 2nd, 3rd and 4th of six layers one head of 64 channels in the
    encoder's self-attention and in the decoder's cross-attention; everything else is mmdet's. It
    does not specify how the head is combined with the remaining channels. 'split' is the paper's
    own single-head module with deformable sampling instead of dense attention: the remaining
    channels bypass attention and go to the output projection. 'projected' projects all channels
    down to the head's channels and back up.

    Changing the six attention modules alone cannot give the parameter count that the paper states;
    ``ffn_channels=512``, the expansion of SHViT's own feed-forward, comes close to it.

    Args:
        args: See mmdet's ``DeformableDETR``.
        single_head: Fields of :class:`SingleHeadLayers` that differ from the paper's.
        kwargs: See mmdet's ``DeformableDETR``.

    Raises:
        ValueError: If a field of ``single_head`` is not one of its choices.
    """

    def __init__(
        self, *args: Any, single_head: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self.single_head = SingleHeadLayers(**(single_head or {}))
        super().__init__(*args, **kwargs)

    def _init_layers(self) -> None:
        super()._init_layers()
        self.single_head.apply(self.encoder.layers, 'encoder', 'self_attn')
        self.single_head.apply(self.decoder.layers, 'decoder', 'cross_attn')
