"""Backbones given on the command line."""

from ast import literal_eval
from collections.abc import Mapping
from typing import Any

from mmengine.registry import MODELS as ROOT_MODELS
from torch import nn

from mmeffvit.errors import UserError
from mmeffvit.models import families
from mmeffvit.registries import MODELS
from mmeffvit.utils.optional import require

from .load import ALL


def parse_backbone(target: str) -> dict[str, Any]:
    """The config of a backbone from ``TYPE[:ARCH][:KEY=VALUE...]``.

    ``ARCH`` is a name, or a number with a decimal point: a multiple of MobileViTv2's base width.
    The name of one of our models, such as 'shvit_s4', is short for 'SHViT:s4'.
    Types of mmdet, mmseg or mmpretrain are prefixed with their scope: 'mmdet.ResNet:depth=50'.

    Raises:
        UserError: If the type is unknown, or a part is malformed.
    """
    name, *rest = target.split(':')
    family, _, arch = name.partition('_')
    if arch and (own := next((own for own in families() if own.lower() == family), None)):
        name, rest = own, [arch, *rest]  # as `mmeffvit models` and get_model name it
    settings: dict[str, Any] = dict(type=backbone_class(name, target))
    for index, part in enumerate(rest):
        key, equals, value = part.partition('=')
        if equals:
            settings[key] = _literal(value)
        elif index == 0:
            is_decimal = '.' in part and part.replace('.', '', 1).isdigit()
            settings['arch'] = float(part) if is_decimal else part
        else:
            raise UserError(f'{part!r} in {target!r} has no value; write {part}=VALUE')
    return settings


def backbone_class(name: str, target: str) -> type[nn.Module]:
    """The class registered as ``name``; without a scope, one of ours."""
    scope = name.partition('.')[0] if '.' in name else 'mmeffvit'
    if scope in ALL:
        require(f'{scope}.models')
    known = {'mmeffvit': MODELS, **ROOT_MODELS.children}.get(scope)
    # an empty registry is falsy, and is filled on access
    cls = known.get(name.removeprefix(f'{scope}.')) if known is not None else None
    if cls is None:
        raise UserError(
            f'{target!r} is neither a config file nor a backbone; backbones are '
            f'{", ".join(families())}, written as SHViT:s4 or EfficientFormerV2:s2:attention=mobile'
        )
    return cls


def build_backbone(settings: Mapping[str, Any]) -> nn.Module:
    """Build the backbone of :func:`parse_backbone`.

    Raises:
        UserError: If an argument is unknown or invalid.
    """
    arguments = dict(settings)
    cls = arguments.pop('type')
    try:
        return cls(**arguments)
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise UserError(f'{cls.__name__}: {str(error) or type(error).__name__}') from error


def _literal(text: str) -> Any:
    try:
        return literal_eval(text)
    except (SyntaxError, ValueError):
        return text
