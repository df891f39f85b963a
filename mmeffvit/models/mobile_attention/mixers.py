"""Token mixers by name: layers on maps of queries, keys and values that replace each other."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from torch import nn

from mmeffvit.models.layers.choice import choose

from .ablations import (
    CastlingAttention,
    ControlVariateAttention,
    FlowAttention,
    GatedAttention,
    HeadLinearAttention,
    HeadSoftmaxAttention,
    HydraAttention,
    SqueezeExciteAttention,
    TokenLinearAttention,
    TokenSoftmaxAttention,
)
from .attention import MobileAttention

MIXERS: dict[str, type[nn.Module]] = {
    'mobile': MobileAttention,
    'token_softmax': TokenSoftmaxAttention,
    'token_linear': TokenLinearAttention,
    'head_softmax': HeadSoftmaxAttention,
    'head_linear': HeadLinearAttention,
    'squeeze_excite': SqueezeExciteAttention,
    'gated': GatedAttention,
    'hydra': HydraAttention,
    'castling': CastlingAttention,
    'eva': ControlVariateAttention,
    'flow': FlowAttention,
}
# of other papers: by default with as many heads as the attention that they replace
OTHERS = ('token_softmax', 'castling', 'eva', 'flow')
# defaults of a backbone; None is the default of the mixer
MOBILE_ATTENTION = dict(head_channels=None, kernel='sigmoid', normalizer='token', competition=True)


def check_unused(options: Mapping[str, Any], attention: str) -> None:
    """Raise a ValueError if there are options for ``attention``, which does not use any."""
    changed = [f'{k} is {v!r}' for k, v in options.items() if v != MOBILE_ATTENTION[k]]
    if changed:
        raise ValueError(f'{", ".join(changed)}: attention={attention!r} does not use it')


def make_mixer(
    attention: str | Mapping[str, Any],
    channels: int,
    options: Mapping[str, Any] = MOBILE_ATTENTION,
    *,
    value_channels: int | None = None,
    num_heads: int | None = None,
) -> nn.Module:
    """Build a token mixer: called with queries, keys and values as maps, it returns a map.

    Args:
        attention: A name in ``MIXERS``, or a dict of such a name as ``type`` and of arguments of
            its class.
        channels: Channels of the queries.
        options: Values for the arguments in ``MOBILE_ATTENTION``; those in the dict take
            precedence.
        value_channels: Channels of the values; None for as many as queries have.
        num_heads: Heads of the replaced attention: the default of mixers of other papers.

    Raises:
        ValueError: If the name is unknown, the class has no such argument, or heads do not divide
            the channels.
    """
    changed = {key: value for key, value in options.items() if value != MOBILE_ATTENTION[key]}
    own = attention if isinstance(attention, Mapping) else dict(type=attention)
    cls, arguments = choose(changed | dict(own), MIXERS)
    if num_heads is not None and cls in map(MIXERS.get, OTHERS):
        arguments = dict(head_channels=channels // num_heads) | arguments
    sizes = dict(channels=channels, value_channels=value_channels)
    parameters = signature(cls).parameters
    mixer = cls(**arguments, **{name: size for name, size in sizes.items() if name in parameters})
    check_heads(mixer, channels, value_channels or channels)
    return mixer


def check_heads(mixer: nn.Module, channels: int, value_channels: int) -> None:
    """Check that a mixer with heads can divide its channels into them.

    Raises:
        ValueError: If it cannot.
    """
    width = getattr(mixer, 'head_channels', channels)
    if channels % width or value_channels % (channels // width):
        values = f' and {value_channels} of values' if value_channels != channels else ''
        raise ValueError(
            f'head_channels is {width}; choose a divisor of {channels} channels of queries{values}'
        )
