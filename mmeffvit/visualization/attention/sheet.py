"""Contact sheets of the attention maps of one image."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from mmeffvit.layers.attention.reading import Reading
from mmeffvit.visualization.contact_sheet import montage

from .overlay import InputImage, draw_image, draw_map, limits_of

COLUMNS = 5  # for one map per layer
STAGE = re.compile(r'^(.*?stages\.\d+)\.')


def draw_sheets(
    image: InputImage,
    readings: Mapping[str, Reading],
    name: str,
    remark: str,
    *,
    stretch: bool = False,
) -> Iterator[tuple[str, np.ndarray]]:
    """Draw all maps: one sheet per mechanism, or per stage if a layer has several maps.

    Args:
        image: The image.
        readings: The readings by layer.
        name: Name of the image, for captions.
        remark: End of every title.
        stretch: Stretch the colors from minimum to maximum, see :func:`.overlay.limits_of`.

    Yields:
        The name and the sheet of each group of layers.
    """
    groups: dict[str, dict[str, Reading]] = {}
    for layer, reading in readings.items():
        groups.setdefault(group_of(layer, reading), {})[layer] = reading
    for group, members in groups.items():
        first = next(iter(members.values()))
        draw = draw_rows if len(first.maps) > 1 else draw_grid
        shown = image if first.queried else without_query(image)
        pictures, columns = draw(shown, members, name, stretch)
        yield group, montage(pictures, columns, f'{first.title}{remark}')


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
    pictures = [draw_image(image, (name, size_of(image)))]
    for layer, reading in readings.items():
        (values,) = reading.maps.values()
        array = values.numpy()
        rows, columns = reading.grid
        caption = (short(layer), f'{stride_of(image, reading)}, {rows} x {columns} cells')
        pictures.append(draw_map(image, array, caption, limits_of(array, stretch=stretch)))
    return pictures, COLUMNS


def draw_rows(
    image: InputImage, readings: Mapping[str, Reading], name: str, stretch: bool
) -> tuple[list[np.ndarray], int]:
    """One row per layer: the image and the maps of the layer."""
    columns = 1 + max(len(reading.maps) for reading in readings.values())
    pictures = []
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
        pictures += row + [blank] * (columns - len(row))
    return pictures, columns


def short(layer: str) -> str:
    """The name of a layer from its stage on, without common suffixes."""
    inside = layer[layer.find('stages.') :] if 'stages.' in layer else layer
    return re.sub(r'(\.attention|\.mixer)+$', '', inside)


def without_query(image: InputImage) -> InputImage:
    return replace(image, canvas=replace(image.canvas, query=None))


def stride_of(image: InputImage, reading: Reading) -> str:
    return f'stride {image.canvas.stride(reading.grid)}'


def size_of(image: InputImage) -> str:
    height, width = image.pixels.shape[:2]
    return f'{width} x {height} pixels'
