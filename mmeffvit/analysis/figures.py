"""Saving of figures."""

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.text import Text

from mmeffvit.utils.files import write_file
from mmeffvit.utils.text import without_formulas

DPI = 80


def save_figure(figure: Figure, path: Path, dpi: int = DPI) -> None:
    """Write a figure as a PNG, atomically, without formulas in names of classes."""
    content = BytesIO()
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    with without_formulas():  # for texts created when it is drawn
        figure.savefig(content, format='png', dpi=dpi)
    write_file(path, content.getvalue())
