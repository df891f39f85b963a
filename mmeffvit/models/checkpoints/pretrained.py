"""Which parts of an ``init_cfg`` load a checkpoint."""

from typing import Any

NAMES = ('Pretrained', 'PretrainedInit')  # in mmengine's registry, and of the class
KEYS = {'type', 'checkpoint', 'prefix', 'map_location'}


def split_pretrained(init_cfg: Any) -> tuple[list[dict], list[Any]]:
    """The parts of an ``init_cfg`` that load a checkpoint, and the others.

    ``init_cfg`` is a dict or a list of them. Their types are classes, or names with or without a
    scope or an import path.
    """
    parts = list(init_cfg) if isinstance(init_cfg, list | tuple) else [init_cfg]
    loading = [part for part in parts if is_pretrained(part)]
    return loading, [part for part in parts if part and not is_pretrained(part)]


def is_pretrained(init_cfg: Any) -> bool:
    """Whether an ``init_cfg``, or a part of it, loads a checkpoint."""
    if isinstance(init_cfg, list | tuple):
        return any(map(is_pretrained, init_cfg))
    if not isinstance(init_cfg, dict):
        return False
    kind = init_cfg.get('type')
    name = getattr(kind, '__name__', str(kind)).rpartition('.')[2]
    return name in NAMES or is_pretrained(init_cfg.get('override'))


def checkpoint_of(init_cfg: Any) -> Any:
    """The checkpoint that an ``init_cfg`` loads last; None without one."""
    return next((part.get('checkpoint') for part in split_pretrained(init_cfg)[0][::-1]), None)


def check_keys(part: dict) -> None:
    """Check that an initializer has a checkpoint, and no argument that has no effect."""
    if part.get('checkpoint') is None or set(part) - KEYS:
        raise ValueError(
            f"init_cfg is {part}; give dict(type='Pretrained', checkpoint=...), and prefix to load "
            'keys with a prefix; or init_cfg=None for random weights'
        )
