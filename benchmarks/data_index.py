"""``python -m benchmarks.data_index [--images N]``: time and memory of indexing a large dataset.

Generated images of 320 x 240 pixels with ten objects each, in COCO format.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

from mmeffvit.data.prepare import PrepareOptions, prepare

WIDTH, HEIGHT, OBJECTS, CLASSES = 320, 240, 10, 5
COMMENT = b'\xff\xfe\x00\x06'  # a JPEG's marker of four bytes that make every file another one


def generate(root: Path, number: int) -> None:
    """Write ``images/N.jpg`` and ``annotations/instances_train.json``."""
    rng = np.random.default_rng(0)
    pixels = cv2.resize(rng.integers(0, 255, (30, 40, 3), np.uint8), (WIDTH, HEIGHT))
    code = cv2.imencode('.jpg', pixels)[1].tobytes()
    corners = rng.integers(0, (WIDTH - 60, HEIGHT - 40), (number, OBJECTS, 2)).tolist()
    for folder in ('images', 'annotations'):
        (root / folder).mkdir()
    annotations = []
    for i, places in enumerate(corners):
        content = code[:-2] + COMMENT + i.to_bytes(4, 'big') + code[-2:]
        (root / 'images' / f'{i:06d}.jpg').write_bytes(content)
        for k, (x, y) in enumerate(places):
            row = dict(id=len(annotations) + 1, image_id=i, category_id=k % CLASSES + 1)
            outline = [x, y, x + 60, y, x + 60, y + 40]
            row.update(bbox=[x, y, 60, 40], area=1200, iscrowd=0, segmentation=[outline])
            annotations.append(row)
    images = [
        dict(id=i, file_name=f'{i:06d}.jpg', width=WIDTH, height=HEIGHT) for i in range(number)
    ]
    categories = [dict(id=i, name=f'class {i}') for i in range(1, CLASSES + 1)]
    content = dict(images=images, annotations=annotations, categories=categories)
    (root / 'annotations' / 'instances_train.json').write_text(json.dumps(content))


def main() -> None:
    parser = argparse.ArgumentParser(prog='python -m benchmarks.data_index', description=__doc__)
    parser.add_argument('--images', type=int, default=100_000, metavar='N')
    number = parser.parse_args().images
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, 'data')
        root.mkdir()
        generate(root, number)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        os.environ['XDG_CACHE_HOME'] = folder
        for opening in ('first', 'second'):
            wall, processor = time.perf_counter(), time.process_time()
            prepare(root, Path(folder, opening), PrepareOptions())
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(
                f'{number:,} images, {number * OBJECTS:,} objects, {opening}: {wall:.1f} s, '
                f'{processor:.1f} s of processors, {memory / 2**20:.2f} GB at most '
                f'({before / 2**20:.2f} GB generating)'
            )


if __name__ == '__main__':
    main()
