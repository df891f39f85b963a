"""Figures on the disk."""

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from mmeffvit.utils.files import write_file

DPI = 80


def put_figure(figure: Figure, path: Path) -> None:
    """Write a PNG; it appears under its name when it is whole."""
    content = BytesIO()
    figure.savefig(content, format='png', dpi=DPI)
    write_file(path, content.getvalue())
