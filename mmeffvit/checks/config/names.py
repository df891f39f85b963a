"""Names of ours that mmdet's and mmseg's own tools do not know without an import."""

from collections.abc import Iterator
from typing import Any

from mmengine.config import Config
from mmengine.registry import MODELS as ROOT_MODELS

from .findings import Finding, fault, note


def check_names(config: Config) -> Iterator[Finding]:
    """Find plain names of our backbones in a config that does not import them.

    They are known here, where mmeffvit is imported, and nowhere else.
    """
    imports = (config.get('custom_imports') or {}).get('imports') or []
    imports = [imports] if isinstance(imports, str) else imports
    if any(name.partition('.')[0] == 'mmeffvit' for name in imports):
        return
    for name in sorted(set(plain_names(config.model))):
        cure = f"write type='mmeffvit.{name}', or add custom_imports = dict(imports=['mmeffvit'])"
        text = f'type={name!r} is known only where mmeffvit was imported, not in tools of others'
        if imports:
            yield note(f'{text}, unless {", ".join(imports)} imports it: {cure}')
        else:
            yield fault(f'{text}: {cure}')


def plain_names(value: Any) -> Iterator[str]:
    """Types anywhere in a config that are registered by us and written without a scope."""
    if isinstance(value, dict):
        kind = value.get('type')
        cls = ROOT_MODELS.module_dict.get(kind) if isinstance(kind, str) else None
        if cls is not None and cls.__module__.partition('.')[0] == 'mmeffvit':
            yield kind
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from plain_names(item)
