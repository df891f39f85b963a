"""``python -m benchmarks.public.predict IMAGES.json OUT MODEL [CHECKPOINT]``: predict a test split.

Boxes go to ``OUT/predictions.json`` as in COCO's results, label maps to ``OUT/results/STEM.png``.
"""

import json
import sys
from pathlib import Path

import cv2
import numpy as np

from mmeffvit import ExportedPredictor, Predictor
from mmeffvit.inference.results import Detections, LabelMap

from .data import CELLS


def main(listing: str, out: str, *model: str) -> None:
    is_file = model[0].endswith('.onnx')
    predictor = ExportedPredictor(*model) if is_file else Predictor(*model)
    folder = Path(out)
    (folder / 'results').mkdir(parents=True, exist_ok=True)
    rows = []
    for image in map(Path, json.loads(Path(listing).read_text())):
        result = predictor(image)
        if isinstance(result, Detections):
            rows += boxes(image, result)
        elif isinstance(result, LabelMap):
            labels = result.labels.astype(np.uint8)
            cv2.imwrite(str(folder / 'results' / f'{image.stem}.png'), labels)
    (folder / 'predictions.json').write_text(json.dumps(rows))


def boxes(image: Path, result: Detections) -> list[dict]:
    """Rows with classes from 1, as Ultralytics writes them; the order of ours follows the data."""
    labels = map(CELLS.index, result.names)
    found = zip(result.boxes.tolist(), result.scores.tolist(), labels, strict=True)
    return [
        dict(file_name=image.name, category_id=label + 1, score=score,
             bbox=[x1, y1, x2 - x1, y2 - y1])
        for (x1, y1, x2, y2), score, label in found
    ]  # fmt: skip


if __name__ == '__main__':
    main(*sys.argv[1:])
