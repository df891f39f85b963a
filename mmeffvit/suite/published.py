"""The published numbers of a leaf config, which its docstring names."""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

METRICS = ('box AP', 'mask AP', 'mIoU')  # percent
OURS = 'Ours'
END = re.compile(r'\.(?:\s|$)')  # of a sentence: a decimal point has a digit behind it
NUMBER = re.compile(rf'(\d+(?:\.\d+)?) ({"|".join(METRICS)})\b')


@dataclass(frozen=True)
class Published:
    """What others reached with a config.

    Args:
        source: Who published them, such as 'Paper'; empty without numbers.
        metrics: Percent, by the names in ``METRICS``.
    """

    source: str = ''
    metrics: dict[str, float] = field(default_factory=dict)


def published_in(docstring: str) -> Published:
    """Find a sentence such as ``Paper: 41.2 box AP, 38.1 mask AP.``

    Whoever it names before the colon, but for ``Ours``; of several the first one with numbers.
    """
    for sentence in END.split(' '.join(docstring.split())):
        source, _, values = sentence.partition(': ')
        metrics = {name: float(value) for value, name in NUMBER.findall(values)}
        if metrics and source.strip() != OURS:
            return Published(source.strip(), metrics)
    return Published()


def read_published(config: Path) -> Published:
    """The published numbers of a config file; none if it has no docstring."""
    try:
        docstring = ast.get_docstring(ast.parse(config.read_text()))
    except SyntaxError:  # the run itself says what is wrong with it
        docstring = None
    return published_in(docstring or '')
