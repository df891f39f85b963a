"""Saving of figures."""

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from mmeffvit.utils.files import write_file

DPI = 80


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG, atomically."""
    content = BytesIO()
    figure.savefig(content, format='png', dpi=DPI)
    write_file(path, content.getvalue())
