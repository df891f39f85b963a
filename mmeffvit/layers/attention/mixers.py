"""Token mixers by name: layers on maps of queries, keys and values that replace each other."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

from torch import nn

from .control_variates import ControlVariateAttention
from .flow import FlowAttention
from .gated import GatedAttention
from .hydra import HydraAttention
from .linear import LinearAttention
from .mobile import MobileAttention
from .softmax import SoftmaxAttention
from .squeeze_excite import SqueezeExciteAttention

VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)  # of a class without __init__
MIXERS: dict[str, type[nn.Module]] = {
    'mobile': MobileAttention,
    'softmax': SoftmaxAttention,
    'linear': LinearAttention,
    'squeeze_excite': SqueezeExciteAttention,
    'gated': GatedAttention,
    'hydra': HydraAttention,
    'eva': ControlVariateAttention,
    'flow': FlowAttention,
}
# of Mobile-Attention; a mixer without an argument accepts its default only
MOBILE_ATTENTION = dict(head_channels=4, kernel='sigmoid', normalizer='token', competition=True)


def choose(
    attention: str | Mapping[str, Any], choices: Mapping[str, Callable[..., nn.Module]]
) -> tuple[Callable[..., nn.Module], dict[str, Any]]:
    """The class of an attention layer among ``choices``, and its arguments.

    Args:
        attention: A name in ``choices``, or a dict of such a name as ``type`` and of arguments of
            its class.
        choices: Classes by name.

    Raises:
        ValueError: If the name is unknown, or the class has no such argument.
    """
    own = dict(attention) if isinstance(attention, Mapping) else dict(type=attention)
    name = own.pop('type', None)
    if name not in choices:
        raise ValueError(f'attention is {name or attention!r}; choose one of {tuple(choices)}')
    parameters = signature(choices[name]).parameters.values()
    accepted = [p.name for p in parameters if p.name != 'channels' and p.kind not in VARIADIC]
    unknown = [f'{key} is {value!r}' for key, value in own.items() if key not in accepted]
    if unknown:
        takes = ', '.join(accepted) or 'no arguments'
        raise ValueError(f'{", ".join(unknown)}: attention={name!r} takes {takes}')
    return choices[name], own


def make_mixer(
    attention: str | Mapping[str, Any], channels: int, options: Mapping[str, Any]
) -> nn.Module:
    """Build a token mixer: called with queries, keys and values as maps, it returns a map.

    Args:
        attention: A name in ``MIXERS``, or a dict of such a name as ``type`` and of arguments of
            its class.
        channels: Channels of the queries.
        options: Values for the arguments in ``MOBILE_ATTENTION``; those in the dict take
            precedence.

    Raises:
        ValueError: If the name is unknown, or the class has no such argument.
    """
    changed = {key: value for key, value in options.items() if value != MOBILE_ATTENTION[key]}
    own = attention if isinstance(attention, Mapping) else dict(type=attention)
    cls, arguments = choose(changed | dict(own), MIXERS)
    if 'channels' in signature(cls).parameters:
        arguments['channels'] = channels
    return cls(**arguments)
