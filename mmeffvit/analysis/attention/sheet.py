"""Contact sheets of the attention maps of one image."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import cv2
import numpy as np

from mmeffvit.analysis.contact_sheet import montage
from mmeffvit.models.layers.reading import Reading

from .recorder import Canvas

COLUMNS = 5  # for one map per layer
STAGE = re.compile(r'^(.*?stages\.\d+)\.')
PANEL_SIDE = 220  # pixels of the longer side of an image
LINE_HEIGHT = 15  # pixels
BAR_HEIGHT = 8  # pixels
OPACITY = 0.7  # of the colors over the gray image
COLOR_MAP = cv2.COLORMAP_VIRIDIS  # perceptually uniform and colorblind-friendly
FONT = cv2.FONT_HERSHEY_SIMPLEX
FONT_SCALE = 0.38


@dataclass(frozen=True)
class InputImage:
    """An image and its position in the input of the network.

    Args:
        pixels: The original image, RGB.
        canvas: The input of the network.
        content: Height and width of the part of the canvas that the image fills, from the top
            left; the rest is padding.
    """

    pixels: np.ndarray
    canvas: Canvas
    content: tuple[float, float]

    def small(self) -> np.ndarray:
        """The image resized to a panel."""
        height, width = self.pixels.shape[:2]
        factor = PANEL_SIDE / max(height, width)
        size = (max(1, round(width * factor)), max(1, round(height * factor)))
        return cv2.resize(self.pixels, size, interpolation=cv2.INTER_AREA)


def draw_sheets(
    image: InputImage, readings: Mapping[str, Reading], name: str, *, remark: str, stretch: bool
) -> Iterator[tuple[str, np.ndarray]]:
    """Draw all maps: one sheet per mechanism, or per stage if a layer has several maps.

    Titles end with the remark; for ``stretch`` see :func:`limits_of`.

    Yields:
        The name and the sheet of each group of layers.
    """
    groups: dict[str, dict[str, Reading]] = {}
    for layer, reading in readings.items():
        groups.setdefault(group_of(layer, reading), {})[layer] = reading
    for group, members in groups.items():
        first = next(iter(members.values()))
        draw = draw_rows if len(first.maps) > 1 else draw_grid
        shown = image if first.queried else replace(image, canvas=replace(image.canvas, query=None))
        panels, columns = draw(shown, members, name, stretch)
        yield group, montage(panels, columns, f'{first.title}{remark}')


def group_of(layer: str, reading: Reading) -> str:
    """Name of the sheet of a layer: its mechanism, prefixed by its stage if it has several maps."""
    if len(reading.maps) == 1:
        return reading.mechanism
    stage = STAGE.match(layer)
    return f'{stage[1]}.{reading.mechanism}' if stage else reading.mechanism


def draw_grid(
    image: InputImage, readings: Mapping[str, Reading], name: str, stretch: bool
) -> tuple[list[np.ndarray], int]:
    """The image, followed by one map per layer."""
    panels = [draw_image(image, (name, size_of(image)))]
    for layer, reading in readings.items():
        (values,) = reading.maps.values()
        array = values.numpy()
        rows, columns = reading.grid
        caption = (short(layer), f'{stride_of(image, reading)}, {rows} x {columns} cells')
        panels.append(draw_map(image, array, caption, limits_of(array, stretch=stretch)))
    return panels, COLUMNS


def draw_rows(
    image: InputImage, readings: Mapping[str, Reading], name: str, stretch: bool
) -> tuple[list[np.ndarray], int]:
    """One row per layer: the image and the maps of the layer."""
    columns = 1 + max(len(reading.maps) for reading in readings.values())
    panels = []
    for layer, reading in readings.items():
        arrays = {caption: values.numpy() for caption, values in reading.maps.items()}
        shared = limits_of(*arrays.values(), stretch=stretch)
        rows, cells = reading.grid
        row = [draw_image(image, (name, f'{size_of(image)}, {rows} x {cells} cells'))]
        for caption, array in arrays.items():
            limits = shared if reading.shared_scale else limits_of(array, stretch=stretch)
            heading = (f'{short(layer)}, {stride_of(image, reading)}', caption)
            row.append(draw_map(image, array, heading, limits))
        blank = np.full_like(row[0], 255)
        panels += row + [blank] * (columns - len(row))
    return panels, columns


def short(layer: str) -> str:
    """The name of a layer from its stage on, without common suffixes."""
    inside = layer[layer.find('stages.') :] if 'stages.' in layer else layer
    return re.sub(r'(\.attention|\.mixer)+$', '', inside)


def stride_of(image: InputImage, reading: Reading) -> str:
    return f'stride {image.canvas.stride(reading.grid)}'


def size_of(image: InputImage) -> str:
    height, width = image.pixels.shape[:2]
    return f'{width} x {height} pixels'


def colors(values: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Colors of a map between two limits: (H, W) -> (H, W, 3) uint8, RGB."""
    low, high = limits
    scaled = (values - low) / (high - low) if high > low else np.zeros_like(values)
    levels = (scaled.clip(0, 1) * 255).round().astype(np.uint8)
    return cv2.cvtColor(cv2.applyColorMap(levels, COLOR_MAP), cv2.COLOR_BGR2RGB)


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
    image: InputImage, values: np.ndarray, caption: tuple[str, str], limits: tuple[float, float]
) -> np.ndarray:
    """Draw a map over the image, with two lines of text above and the color scale below."""
    small = image.small()
    spread = image.canvas.spread(values, image.content, small.shape[:2])
    gray = cv2.cvtColor(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    blend = cv2.addWeighted(colors(spread, limits), OPACITY, gray, 1 - OPACITY, 0)
    mark_query(blend, image)
    width = small.shape[1]
    scale = draw_scale(limits, 0.0 if values.min() < 0 else float(values.mean()), width)
    return np.concatenate([*heading(caption, width), blend, scale])


def draw_scale(limits: tuple[float, float], mark: float, width: int) -> np.ndarray:
    """A color bar with the values of its ends and of a tick at ``mark``."""
    low, high = limits
    bar = colors(np.linspace(low, high, width)[None].repeat(BAR_HEIGHT, axis=0), limits)
    precision = digits(limits)
    first, middle, last = (f'{value:.{precision}g}' for value in (low, mark, high))
    numbers = text_line(first, width)
    write(numbers, last, width - text_width(last) - 1)
    if low < mark < high:
        position = round((mark - low) / (high - low) * (width - 1))
        bar[:, max(0, position - 1) : position + 1] = 255
        left = position - text_width(middle) // 2
        right = left + text_width(middle)
        if text_width(first) + 6 <= left and right <= width - text_width(last) - 6:
            write(numbers, middle, left)
    return np.concatenate([bar, numbers])


def digits(limits: tuple[float, float]) -> int:
    """Number of significant digits that distinguish the ends of a scale, from 3 to 7."""
    low, high = limits
    if high <= low:
        return 3
    return min(7, 2 + max(1, math.ceil(math.log10(max(abs(low), abs(high)) / (high - low)))))


def draw_image(image: InputImage, caption: tuple[str, str]) -> np.ndarray:
    """Draw the image without a map, in a panel of the same size."""
    panel = image.small()
    mark_query(panel, image)
    width = panel.shape[1]
    below = np.full((BAR_HEIGHT + LINE_HEIGHT, width, 3), 255, np.uint8)
    return np.concatenate([*heading(caption, width), panel, below])


def mark_query(panel: np.ndarray, image: InputImage) -> None:
    """Draw a ring around the query point, if any."""
    if image.canvas.query is None:
        return
    center = tuple(
        int(position / part * pixels)
        for position, part, pixels in zip(
            image.canvas.query, image.content[::-1], panel.shape[1::-1], strict=True
        )
    )
    for thickness, color in ((4, (0, 0, 0)), (2, (255, 255, 255))):
        cv2.circle(panel, center, 5, color, thickness, cv2.LINE_AA)


def heading(lines: tuple[str, str], width: int) -> list[np.ndarray]:
    """Lines of text with the width of a panel; long ones are truncated at the beginning."""
    return [text_line(fitted(line, width), width) for line in lines]


def fitted(text: str, width: int) -> str:
    """``text``, or its end after an ellipsis if it is too wide."""
    shown = text
    while text and text_width(shown) > width:
        text = text[1:]
        shown = f'...{text}'
    return shown


def text_line(text: str, width: int) -> np.ndarray:
    line = np.full((LINE_HEIGHT, width, 3), 255, np.uint8)
    write(line, text, 1)
    return line


def write(line: np.ndarray, text: str, left: int) -> None:
    cv2.putText(line, text, (left, 11), FONT, FONT_SCALE, (0, 0, 0), 1, cv2.LINE_AA)


def text_width(text: str) -> int:
    return cv2.getTextSize(text, FONT, FONT_SCALE, 1)[0][0]
