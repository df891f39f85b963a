"""Make links out of ``docs/`` work on the site too, by adding their files to it.

On the repository page ``../configs/retinanet_shvit_s4.py`` is a file next to ``docs/``. Here every
such file becomes part of the site under ``source/``, and every link to it is rewritten; a Markdown
file becomes a page, with the files that it links to in turn.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / 'README.md'
HOME = 'index.md'
# the index of docs/ on the repository page; the home page of the site is the README above it
CONTENTS = ROOT / 'docs' / 'README.md', 'contents.md'
LOG = get_plugin_logger('links')
# fenced and inline code, which has no links; or the target of a link or image
CODE_OR_LINK = re.compile(
    r'^ *```.*?^ *```|`[^`\n]+`|(\]\()([^)\s]+)(?=\))', re.DOTALL | re.MULTILINE
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as the home page, and the files outside of ``docs/`` that pages link to."""
    files.append(File.generated(config, HOME, abs_src_path=str(README)))
    files.append(File.generated(config, CONTENTS[1], abs_src_path=str(CONTENTS[0])))
    queue = [Path(file.abs_src_path) for file in files.documentation_pages()]
    while queue:
        page = queue.pop()
        for target, _ in local_links(page, page.read_text()):
            uri = uri_of(target, config)
            if files.get_file_from_path(uri) is None and target.is_file():
                files.append(File.generated(config, uri, abs_src_path=str(target)))
                if target.suffix == '.md':
                    queue.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links to the paths of the files on the site."""
    source = Path(page.file.abs_src_path)
    folder = os.path.dirname(page.file.src_uri)

    def rewrite(match: re.Match) -> str:
        path = local_path(source, match[2])
        if path is None:
            return match[0]
        if not path.is_file():
            LOG.warning(f'{source.relative_to(ROOT)} links to {match[2]}, which is no file')
        anchor = match[2].partition('#')[1:]
        return match[1] + os.path.relpath(uri_of(path, config), folder or '.') + ''.join(anchor)

    return CODE_OR_LINK.sub(rewrite, markdown)


def local_links(page: Path, markdown: str) -> Iterator[tuple[Path, str]]:
    """All files of this repository that a page links to, with the original links."""
    for match in CODE_OR_LINK.finditer(markdown):
        path = local_path(page, match[2])
        if path is not None:
            yield path, match[2]


def local_path(page: Path, link: str | None) -> Path | None:
    """The file that a link refers to, or None for a URL or an anchor on the same page."""
    if link is None or link.startswith('#') or re.match(r'[a-z]+:', link):
        return None
    return Path(os.path.normpath(page.parent / link.partition('#')[0]))


def uri_of(path: Path, config: MkDocsConfig) -> str:
    """The path of a file of the repository among the sources of the site."""
    if path == README:
        return HOME
    if path == CONTENTS[0]:
        return CONTENTS[1]
    docs = Path(config.docs_dir)
    if path.is_relative_to(docs):
        return path.relative_to(docs).as_posix()
    return f'source/{os.path.relpath(path, ROOT)}'
