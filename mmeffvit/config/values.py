"""Checks of config values that are not checked, or not clearly, when the config is built."""

import re
from collections.abc import Iterator
from typing import Any

from mmengine.config import Config

from mmeffvit.errors import UserError
from mmeffvit.utils.schema import Field, integer_from, is_dict, is_list, is_number, is_text


def are_divisors(value: Any) -> bool:
    return is_list(value) and all(is_number(item) and item > 0 for item in value)


LOADER = r'(train|val|test)_dataloader'
DIVISORS = 'a list of positive numbers that images are divided by, such as [58.395, 57.12, 57.375]'
RULES = (  # keys are regular expressions
    Field(rf'model|optim_wrapper|default_hooks|env_cfg|{LOADER}|(train|val|test)_cfg|randomness|'
          r'log_processor|model\.test_cfg\.(.*\.)?nms', is_dict, 'a dict'),
    Field(rf'(model\.|.*\.detector\.|)(backbone|data_preprocessor)|{LOADER}\.(.*\.)?'
          r'(dataset|metainfo)', is_dict, 'a dict'),
    Field(rf'{LOADER}\.(.*\.)?data_prefix', lambda value: is_dict(value) or is_text(value),
          'a dict of folders, or a folder'),
    Field(rf'{LOADER}\.(.*\.)?pipeline|custom_hooks', is_list, 'a list of dicts'),
    Field(rf'{LOADER}\.(.*\.)?(ann_file|data_root)|load_from|work_dir', is_text, 'a path'),
    Field(rf'{LOADER}\.dataset\.pipeline', bool, 'a list of transforms'),
    Field(rf'{LOADER}\.batch_size|train_cfg\.max_(epochs|iters)|log_processor\.window_size|'
          r'(.*\.)?data_preprocessor\.pad_size_divisor|default_hooks\.logger\.interval',
          integer_from(1), 'an integer of at least 1'),
    Field(r'default_hooks\.checkpoint\.interval', integer_from(-1), 'an integer'),
    Field(rf'{LOADER}\.num_workers', integer_from(0), 'an integer of at least 0'),
    Field(r'optim_wrapper\.optimizer\.lr', lambda value: is_number(value) and value >= 0,
          'a number of at least 0'),
    Field(r'(.*\.)?(data_preprocessor|Normalize)\.std', are_divisors, DIVISORS),
    Field(r'model\.test_cfg\.(.*\.)?nms_pre', integer_from(1), 'an integer of at least 1'),
    Field(r'model\.test_cfg\.(.*\.)?max_per_img', integer_from(-1), 'an integer of at least -1'),
    Field(r'model\.test_cfg\.(.*\.)?(score_thr|mask_thr_binary|iou_threshold)', is_number,
          'a finite number'),
)  # fmt: skip


def check_values(config: Config) -> None:
    """Raise a ``UserError`` for an invalid value of a config."""
    for place, settings in dicts_in(config.to_dict()):
        for key, value in settings.items():
            # a transform is also known by its type
            names = f'{place}.{key}'.lstrip('.'), f'{settings.get("type")}.{key}'
            for rule in RULES if value is not None else ():
                if any(re.fullmatch(rule.key, n) for n in names) and not rule.is_valid(value):
                    raise UserError(f'{names[0]} is {value!r:.80} in {config.filename}; it must '
                                    f'be {rule.requirement}')  # fmt: skip


def dicts_in(value: Any) -> Iterator[tuple[str, dict]]:
    """Every dict anywhere in a config with its dotted key, outer ones first."""
    return ((place, found) for place, _, found in keyed_dicts_in(value))


def keyed_dicts_in(value: Any, place: str = '', key: Any = '') -> Iterator[tuple[str, Any, dict]]:
    """Every dict anywhere in a config: its dotted key, its own key or its list's, and the dict."""
    if is_dict(value):
        yield place, key, value
        items = [(name, name, item) for name, item in value.items()]
    else:
        items = [(i, key, item) for i, item in enumerate(value)] if is_list(value) else []
    for name, inner, item in items:
        yield from keyed_dicts_in(item, f'{place}.{name}' if place else str(name), inner)


def uses_mmpretrain(value: Any) -> bool:
    """Whether a model, or a module in it, has a type of mmpretrain."""
    return any(str(d.get('type')).startswith('mmpretrain.') for _, d in dicts_in(value))
