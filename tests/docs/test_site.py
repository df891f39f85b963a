"""The site builds without a warning, and links work on the repository's own pages too."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path

import pytest
from mmengine.config import Config

from docs.hooks.zoo import HEADS
from mmeffvit.errors import UserError
from mmeffvit.zoo import read_models
from tests.conftest import ROOT
from tests.docs.pages import code_blocks

pytest.importorskip('mkdocs', reason='the documentation is built with mkdocs')

PAGES = [ROOT / 'README.md', ROOT / 'CHANGELOG.md', *sorted((ROOT / 'docs').rglob('*.md'))]
CODE = re.compile(r'^ *```.*?^ *```|`[^`\n]+`', re.DOTALL | re.MULTILINE)
LINK = re.compile(r'\]\(([^)\s]+)\)')


def local_links(page: Path) -> Iterator[str]:
    """The links and images of a page that refer to files of this repository."""
    for link in LINK.findall(CODE.sub('', page.read_text())):
        if not re.match(r'[a-z]+:', link):
            yield link


def anchors(page: Path) -> set[str]:
    """The anchors of a page, as GitHub spells them."""
    text = re.sub(r'^```.*?^```', '', page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r'^#+ (.+)$', text, re.MULTILINE)
    plain = [re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', heading).lower() for heading in headings]
    return {re.sub(r'[^\w\- ]', '', heading).replace(' ', '-') for heading in plain}


def is_broken(page: Path, link: str) -> bool:
    path, _, anchor = link.partition('#')
    target = Path(os.path.normpath(page.parent / path)) if path else page
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target)


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page):
    assert [link for link in local_links(page) if is_broken(page, link)] == []


def run_code(code: str) -> dict:
    namespace: dict = {}
    exec(code, namespace)
    return namespace


@cache
def read_model(path: Path) -> Mapping:
    return Config.fromfile(path).model


def holds(config: Mapping, wanted: Mapping) -> bool:
    """Whether ``config`` has every value of ``wanted``."""
    return all(
        holds(config.get(key) or {}, value) if isinstance(value, dict) else config.get(key) == value
        for key, value in wanted.items()
    )


@pytest.mark.parametrize('title', [head for head in HEADS if head != 'Classifier'])
def test_a_setup_of_a_head_is_that_of_a_config(title, tmp_path):
    sections = re.split(r'^## ', (ROOT / 'docs' / 'heads.md').read_text(), flags=re.MULTILINE)
    (section,) = (text for text in sections if text.startswith(f'{title}\n'))
    (tmp_path / 'section.md').write_text(section)
    blocks = code_blocks(tmp_path / 'section.md', 'python')
    shown = [part for part in map(run_code, blocks) if 'model' in part]
    models = read_models().values()
    configs = [model.config for model in models if model.config and title in model.architecture]
    assert shown
    for part in shown:
        found = (path for path in configs if holds(read_model(path), part['model']))
        assert next(found, None), part['model']


def test_the_first_example_runs(capsys):
    (code,) = code_blocks(ROOT / 'docs' / 'installation.md', 'python')
    run_code(code)
    assert '(16, 32, 64)' in capsys.readouterr().out


@pytest.fixture(scope='module')
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('site')
    command = [sys.executable, '-m', 'mkdocs', 'build', '--strict', '--site-dir', str(folder)]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert build.returncode == 0, build.stderr
    return folder


# a strict build follows the links between pages and to their headings
LOADED = re.compile(r'<(?:img|script|link)\b[^>]*\b(?:src|href)="([^"]+)"')


def test_the_site_loads_nothing_from_elsewhere(site):
    pages = [page for page in site.rglob('*.html') if page.name != '404.html']
    assert len(pages) > 30
    for page in pages:
        loaded = LOADED.findall(page.read_text())
        assert loaded, page
        assert [link for link in loaded if '//' in link] == [], page


def public(path: str) -> list[set[str]]:
    """The classes and functions that a package exports, each under its two names."""
    if not Path(ROOT, *path.split('.')).is_dir():
        return [{path}]
    package = import_module(path)
    exported = {name: getattr(package, name) for name in package.__all__}
    return [
        {f'{path}.{name}', f'{value.__module__}.{name}'}
        for name, value in exported.items()
        if isclass(value) or isfunction(value)
    ]


def test_every_name_of_the_api_is_on_the_site_with_its_docstring(site):
    html = (site / 'api.html').read_text()
    for path in re.findall(r'^::: (.+)$', (ROOT / 'docs' / 'api.md').read_text(), re.MULTILINE):
        try:
            names = public(path)
        except UserError:  # a package that it is for is not installed
            continue
        assert [both for both in names if not any(f'id="{n}"' in html for n in both)] == []
    assert html.count('doc-contents') > 100
    assert not re.search(r':(class|func|mod|data):', html)  # roles must be rendered as code
