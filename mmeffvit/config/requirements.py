"""The hosts and what they stand on: looked for when something needs them, never at import."""

import importlib
from importlib.util import find_spec

from mmengine.config import Config

from mmeffvit.errors import UserError

CURES = {
    'mmdet': 'pip install "mmeffvit[det]"',
    'mmseg': 'pip install "mmeffvit[seg]"',
    'mmcv': (
        "pip install 'setuptools<82' wheel ninja && "
        'MMCV_WITH_OPS=1 pip install --no-build-isolation --no-binary mmcv "mmcv>=2.0.0,<2.2.0"'
    ),
}


def require(package: str) -> None:
    """Import a host, or say how to install it.

    Args:
        package: 'mmdet', 'mmseg' or 'mmcv'.

    Raises:
        UserError: If the package is missing, refuses the versions it finds, or, for mmcv, lacks
            operators that fit the installed torch.
    """
    if find_spec(package) is None:
        raise UserError(f'{package} is not installed: `{CURES[package]}`')
    module = 'mmcv.ops' if package == 'mmcv' else package
    try:
        importlib.import_module(module)
    except (ImportError, AssertionError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f'{package} does not work in this environment ({reason}): `{CURES[package]}`'
        ) from error


def require_host_of(config: Config) -> str:
    """Import the host that ``config`` is written for, with the operators it needs.

    Returns:
        'mmdet' or 'mmseg'.

    Raises:
        UserError: If the config names no host, or its host does not work here.
    """
    scope = config.get('default_scope')
    if scope not in ('mmdet', 'mmseg'):
        raise UserError(
            f"default_scope is {scope!r} in {config.filename}; write default_scope = 'mmdet' or "
            "default_scope = 'mmseg'"
        )
    require('mmcv')
    require(scope)
    return scope
