"""Plain names of our backbones, which mmdet's and mmseg's tools find only after an import."""

from collections.abc import Iterator
from typing import Any

from mmengine.config import Config
from mmengine.registry import MODELS as ROOT_MODELS

from mmeffvit.config.values import dicts_in

from .findings import Finding, fault, note


def check_names(config: Config) -> Iterator[Finding]:
    """Report plain names of our backbones in a config that does not import mmeffvit.

    They work here, where mmeffvit is imported, but not in other tools.
    """
    imports = (config.get('custom_imports') or {}).get('imports') or []
    imports = [imports] if isinstance(imports, str) else imports
    if any(name.partition('.')[0] == 'mmeffvit' for name in imports):
        return
    for name in sorted(set(plain_names(config.model))):
        fix = f"write type='mmeffvit.{name}', or add custom_imports = dict(imports=['mmeffvit'])"
        text = f'type={name!r} works only after mmeffvit is imported, not in other tools'
        if imports:
            yield note(f'{text}, unless {", ".join(imports)} imports it: {fix}')
        else:
            yield fault(f'{text}: {fix}')


def plain_names(value: Any) -> Iterator[str]:
    """Types in a config that this package registers, given without a scope."""
    for _, settings in dicts_in(value):
        kind = settings.get('type')
        cls = ROOT_MODELS.module_dict.get(kind) if isinstance(kind, str) else None
        if cls is not None and cls.__module__.partition('.')[0] == 'mmeffvit':
            yield kind
