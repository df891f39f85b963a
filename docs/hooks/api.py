"""Expand ``::: PACKAGE`` on the page of the API to the public classes and functions of a package.

Public is what ``__all__`` of the package names; the text comes from the docstrings. A new class
appears on the site without an edit here. ``::: PACKAGE.NAME`` stays as it is.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from griffe import GriffeLoader, Object
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r'^::: ([\w.]+)$', re.MULTILINE)


def on_page_markdown(markdown: str, page: Page, **kwargs: object) -> str:
    if page.file.src_uri != 'api.md':
        return markdown
    return NAME.sub(lambda found: '\n\n'.join(f'::: {name}' for name in names(found[1])), markdown)


def names(path: str) -> Iterator[str]:
    """The names behind a line of a page: those of a package, or the one that is given."""
    if not (ROOT / path.replace('.', '/') / '__init__.py').is_file():
        yield path
        return
    package = root()[path.partition('.')[2]]
    for name in package.exports or ():
        member = package[name]
        if member.is_module and name in member.members:  # griffe prefers a module of the same name
            member = member[name]
        found = member.final_target if member.is_alias else member
        if (found.is_class or found.is_function) and found.has_docstring:
            yield f'{path}.{name}' if member.is_alias else found.path


@cache
def root() -> Object:
    """Our package as griffe reads it, without importing it."""
    loader = GriffeLoader(search_paths=[str(ROOT)])
    package = loader.load('mmeffvit')
    loader.resolve_aliases(external=False)
    return package
