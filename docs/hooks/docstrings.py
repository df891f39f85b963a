"""Convert roles in docstrings to Markdown: ``:class:`~mmeffvit.SHViT` `` becomes ``SHViT``."""

import re
from typing import Any

from griffe import Extension, Object

ROLE = re.compile(r':(?:class|func|mod|data|meth):`(~?)([^`]+)`')


class References(Extension):
    """Render roles of a docstring as code; with a tilde, only the last part of the name."""

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(as_code, obj.docstring.value)


def as_code(role: re.Match) -> str:
    name = role[2].rpartition('.')[2] if role[1] else role[2]
    return f'`{name}`'
