"""Contact sheets of the attention maps of one image."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import cv2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmeffvit.models.layers.reading import Reading

from .recorder import Canvas

COLUMNS = 5  # for one map per layer
STAGE = re.compile(r'^(.*?stages\.\d+)\.')
INCHES = 2.4  # width of a panel
TEXT_INCHES = 0.9  # height of the caption and the color scale of a panel
OPACITY = 0.7  # of the colors over the gray image
COLOR_MAP = 'viridis'  # perceptually uniform and colorblind-friendly
MARGIN = 0.2  # of a color scale, within which the mean has no tick beside those of the ends


@dataclass(frozen=True)
class InputImage:
    """An image and its position in the input of the network."""

    pixels: np.ndarray  # the original image, RGB
    canvas: Canvas  # the input of the network
    content: tuple[float, float]  # height and width of the image in it, from the top left


def draw_sheets(
    image: InputImage, readings: Mapping[str, Reading], name: str, *, remark: str, stretch: bool
) -> Iterator[tuple[str, Figure]]:
    """Draw all maps: one sheet per mechanism, or per stage if a layer has several maps.

    Titles end with the remark; for ``stretch`` see :func:`limits_of`.

    Yields:
        The name and the sheet of each group of layers.
    """
    groups: dict[str, dict[str, Reading]] = {}
    for layer, reading in readings.items():
        stage = STAGE.match(layer) if len(reading.maps) > 1 else None
        group = f'{stage[1]}.{reading.mechanism}' if stage else reading.mechanism
        groups.setdefault(group, {})[layer] = reading
    for group, members in groups.items():
        first = next(iter(members.values()))
        shown = image if first.queried else replace(image, canvas=replace(image.canvas, query=None))
        figure = draw_sheet(shown, members, name, stretch)
        figure.suptitle(f'{first.title}{remark}', fontsize='medium')
        yield group, figure


def draw_sheet(
    image: InputImage, readings: Mapping[str, Reading], name: str, stretch: bool
) -> Figure:
    """The image and the maps: a row per layer that has several, otherwise one for all layers."""
    most = max(len(reading.maps) for reading in readings.values())
    columns = COLUMNS if most == 1 else 1 + most
    rows = math.ceil((1 + len(readings)) / COLUMNS) if most == 1 else len(readings)
    height, width = image.content
    size = (INCHES * columns, 0.3 + rows * (INCHES * height / width + TEXT_INCHES))
    figure = Figure(size, layout='constrained')
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.set_axis_off()
    free = iter(panels.flat)
    for number, (layer, reading) in enumerate(readings.items()):
        if most > 1:
            free = iter(panels[number])
        if most > 1 or not number:
            shape = image.pixels.shape
            draw_image(next(free), image, image.pixels, f'{name}\n{shape[1]} x {shape[0]} pixels')
        stride = f'stride {image.canvas.stride(reading.grid)}'
        cells = ' x '.join(map(str, reading.grid))
        shared = limits_of(*(m.numpy() for m in reading.maps.values()), stretch=stretch)
        for caption, values in reading.maps.items():
            limits = shared if reading.shared_scale else limits_of(values.numpy(), stretch=stretch)
            text = f'{short(layer)}, {stride}\n{caption + ", " if caption else ""}{cells} cells'
            draw_map(next(free), image, values.numpy(), text, limits)
    return figure


def short(layer: str) -> str:
    """The name of a layer from its stage on, without common suffixes."""
    inside = layer[layer.find('stages.') :] if 'stages.' in layer else layer
    return re.sub(r'(\.attention|\.mixer)+$', '', inside)


def limits_of(*maps: np.ndarray, stretch: bool = False) -> tuple[float, float]:
    """Limits of the color scale, which include all values, 0 and twice the mean.

    So a uniform map has the middle color, not the brightest, and noise does not fill the scale.
    With ``stretch`` they are the minimum and the maximum.
    """
    low = min(float(m.min()) for m in maps)
    high = max(float(m.max()) for m in maps)
    if stretch:
        return low, high
    doubled = [2 * float(m.mean()) for m in maps]
    return min(0.0, low, *doubled), max(0.0, high, *doubled)


def draw_map(
    axes: Axes, image: InputImage, values: np.ndarray, caption: str, limits: tuple[float, float]
) -> None:
    """Draw a map over the gray image, every cell in one color, with the color scale below."""
    draw_image(axes, image, cv2.cvtColor(image.pixels, cv2.COLOR_RGB2GRAY), caption)
    (rows, columns), (high, wide) = values.shape, image.canvas.pitches(values.shape)
    shown = axes.imshow(
        values, COLOR_MAP, interpolation='nearest', alpha=OPACITY, vmin=limits[0], vmax=limits[1],
        extent=(0, wide * columns, high * rows, 0),
    )  # fmt: skip
    axes.set(xlim=(0, image.content[1]), ylim=(image.content[0], 0))  # without padding
    mark = 0.0 if values.min() < 0 else float(values.mean())
    margin = MARGIN * (limits[1] - limits[0])
    marks = [mark] if limits[0] + margin < mark < limits[1] - margin else []
    scale = axes.figure.colorbar(
        shown, ax=axes, orientation='horizontal', pad=0.02, aspect=30,
        format='%.3g' if limits[0] <= 0 else '%.5g',  # the ends of a stretched scale are close
    )  # fmt: skip
    scale.set_ticks([limits[0], *marks, limits[1]])
    scale.ax.tick_params(labelsize='x-small')


def draw_image(axes: Axes, image: InputImage, pixels: np.ndarray, caption: str) -> None:
    """Draw the image in pixels of the network's input, with a ring around the query point."""
    height, width = image.content
    axes.imshow(pixels, 'gray', vmin=0, vmax=255, extent=(0, width, height, 0))
    axes.set_title(caption, fontsize='x-small')
    for thickness, color in ((4, 'black'), (2, 'white')) if image.canvas.query else ():
        ring = dict(marker='o', markersize=8, fillstyle='none', markeredgewidth=thickness)
        axes.plot(*image.canvas.query, color=color, zorder=3, **ring)
