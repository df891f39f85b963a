"""What to count: a backbone that the command line spells out, and sizes that a config names."""

from ast import literal_eval
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from mmengine.config import Config
from mmengine.registry import MODELS as ROOT_MODELS
from torch import nn

from mmeffvit.checks.config.sample import settings_of
from mmeffvit.config.requirements import require
from mmeffvit.errors import UserError
from mmeffvit.registry import MODELS

DEFAULT_PROPOSALS = 1000


def parse_backbone(target: str) -> dict[str, Any]:
    """The config of a backbone from ``TYPE[:ARCH][:KEY=VALUE...]``.

    ``ARCH`` is a name, or a number with a point: a multiple of the base width of MobileViTv2. A
    type of a host has its scope before it: 'mmdet.ResNet:depth=50'.

    Raises:
        UserError: If the type is unknown, or a part is not of that form.
    """
    name, *rest = target.split(':')
    settings: dict[str, Any] = dict(type=backbone_class(name, target))
    for index, part in enumerate(rest):
        key, equals, value = part.partition('=')
        if equals:
            settings[key] = _literal(value)
        elif index == 0:
            settings['arch'] = float(part) if _is_decimal(part) else part
        else:
            raise UserError(f'{part!r} in {target!r} has no value; write {part}=VALUE')
    return settings


def backbone_class(name: str, target: str) -> type[nn.Module]:
    """The class registered as ``name``, which without a scope is one of ours."""
    scope = name.partition('.')[0] if '.' in name else 'mmeffvit'
    if scope in ('mmdet', 'mmseg'):
        require(scope)
        import_module(f'{scope}.registry')
    import mmeffvit.backbones  # noqa: F401  fills the registry

    known = {'mmeffvit': MODELS, **ROOT_MODELS.children}.get(scope)
    # an empty registry is false, and fills itself when asked
    cls = known.get(name.removeprefix(f'{scope}.')) if known is not None else None
    if cls is None:
        # what a backbone of ours has and a neck or a head has not
        ours = sorted(key for key, cls in MODELS.module_dict.items() if hasattr(cls, 'input_mean'))
        raise UserError(
            f'{target!r} is neither a config file nor a backbone; backbones are '
            f'{", ".join(ours)}, written as SHViT:s4 or EfficientFormerV2:s2:attention=mobile'
        )
    return cls


def build_backbone(settings: Mapping[str, Any]) -> nn.Module:
    """Build what :func:`parse_backbone` returned.

    Raises:
        UserError: If an argument is unknown or not one of its choices.
    """
    arguments = dict(settings)
    cls = arguments.pop('type')
    try:
        return cls(**arguments)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f'{cls.__name__}: {error}') from error


def _literal(text: str) -> Any:
    try:
        return literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _is_decimal(text: str) -> bool:
    return '.' in text and text.replace('.', '', 1).isdigit()


def tested_shape(config: Config) -> tuple[int, int] | None:
    """Height and width in pixels of the images that the config tests on, if it names them."""
    preprocessor = config.model.get('data_preprocessor') or config.get('data_preprocessor') or {}
    if preprocessor.get('size') is not None:
        return tuple(preprocessor['size'])
    if config.default_scope == 'mmdet':
        for resize in settings_of(config.get('test_dataloader'), 'Resize'):
            if isinstance(resize.get('scale'), list | tuple):
                width, height = resize['scale']
                return height, width
    return None


def tested_proposals(settings: Mapping[str, Any]) -> int:
    """Boxes that the first stage passes on when the config tests."""
    rpn = (settings.get('test_cfg') or {}).get('rpn') or {}
    return rpn.get('max_per_img', DEFAULT_PROPOSALS)
