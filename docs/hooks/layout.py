"""Keep the navigation beside the page on screens from 1000 pixels on, and wide tables whole.

The theme hides the navigation below 1220 pixels, and has no option for it: the widths are replaced
in its built style sheets and script.
"""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.pages import Page

LOG = get_plugin_logger('layout')
WIDTHS = {'76.25em': '62.5em', '76.234375em': '62.484375em'}  # 16 pixels each
ASSETS = ('stylesheets/main.*.css', 'stylesheets/palette.*.css', 'javascripts/bundle.*.js')
# pages with tables that need the width of the table of contents
WIDE = ('index.md', 'zoo.md', 'which_model.md')


def on_page_markdown(markdown: str, page: Page, **kwargs: object) -> str:
    if page.file.src_uri in WIDE or page.file.src_uri.startswith('source/'):
        page.meta['hide'] = ['toc']
    return markdown


def on_post_build(config: MkDocsConfig) -> None:
    for pattern in ASSETS:
        for path in Path(config.site_dir, 'assets').glob(pattern):
            text = path.read_text()
            if '76.25em' not in text:
                LOG.warning(f'{path.name} has no width of 76.25em: adapt docs/hooks/layout.py')
            for old, new in WIDTHS.items():
                text = text.replace(old, new)
            path.write_text(text)
