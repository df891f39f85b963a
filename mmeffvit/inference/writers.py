"""Writers of results; files get their final name when they are complete."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import cv2
from numpy.typing import NDArray

from mmeffvit.data.formats.coco_file import encode_runs
from mmeffvit.errors import UserError
from mmeffvit.utils.files import check_output, partial_folder, publish
from mmeffvit.utils.images import write_image, write_labels

from .coco_ids import CocoIds
from .inputs import Frame, Media
from .results import ClassScores, Detections, LabelMap, Result, name_of

BEST = 5  # classes of an image


class Writer(ABC):
    """Takes results one by one."""

    finished = ''  # where files are that are complete before the last result

    def open(self) -> None:  # noqa: B027  nothing to do by default
        """Prepare for the first result."""

    @abstractmethod
    def write(self, frame: Frame, result: Result) -> None:
        """Write the results of one image."""

    def see(self, result: Result) -> None:  # noqa: B027  nothing to do by default
        """Inspect a result before its detections below the score threshold are removed."""

    def close(self) -> None:  # noqa: B027  nothing to do by default
        """Finish after the last result."""

    def abandon(self) -> None:  # noqa: B027  nothing to do by default
        """Remove what is unfinished."""


class ListWriter(Writer):
    """A JSON list, one row per line, appended to a temporary file that is renamed at the end."""

    def __init__(self, path: Path) -> None:
        self.path = check_output(path)
        self.partial, self.separator = ExitStack(), '[\n'

    def open(self) -> None:
        self.folder = self.partial.enter_context(partial_folder(self.path))
        self.file = self.partial.enter_context((self.folder / self.path.name).open('w'))

    def append(self, rows: Iterable[dict]) -> None:
        for row in rows:
            self.file.write(self.separator + json.dumps(row))
            self.separator = ',\n'
        self.file.flush()

    def close(self) -> None:
        """Rename the complete file to its final name."""
        self.file.write('[]\n' if self.separator == '[\n' else '\n]\n')
        self.file.close()
        publish(self.folder, self.path)
        self.partial.close()

    def abandon(self) -> None:
        self.partial.close()


class ClassWriter(ListWriter):
    """The best classes of every image, those from ``score_thr`` and the first, in one JSON file."""

    def __init__(self, path: Path, score_thr: float) -> None:
        super().__init__(path)
        self.score_thr = score_thr

    def write(self, frame: Frame, result: ClassScores) -> None:
        best = [
            dict(
                label=int(label),
                name=name_of(label, result.classes),
                score=float(result.scores[label]),
            )
            for label in result.above(self.score_thr, BEST)
        ]
        self.append([dict(file_name=frame.name.as_posix(), classes=best)])


class CocoWriter(ListWriter):
    """COCO results in ``FILE.json``, and the image ids in ``FILE.images.json``."""

    def __init__(self, path: Path, ids: CocoIds) -> None:
        super().__init__(path)
        self.ids = ids
        self.images: list[dict] = []
        self.listed = check_output(path.with_name(f'{path.stem}.images.json'))

    def write(self, frame: Frame, result: Detections) -> None:
        height, width = frame.image.shape[:2]
        image_id = self.ids.image_id(frame.source.path, is_image=frame.number is None)
        self.images.append(
            dict(id=image_id, file_name=frame.name.as_posix(), height=height, width=width)
        )
        self.append(dict(image_id=image_id, **row) for row in coco_results(result, self.ids))

    def close(self) -> None:
        """Write the images, and rename the complete files to their final names."""
        (self.folder / self.listed.name).write_text(json.dumps(self.images, indent=1))
        super().close()


def coco_results(found: Detections, ids: CocoIds) -> list[dict]:
    """The detections of an image in COCO format, with run-length encoded masks."""
    rows = []
    for i, (left, top, right, bottom) in enumerate(found.boxes.tolist()):
        row = dict(
            category_id=ids.category_id(found.labels[i]),
            bbox=[left, top, right - left, bottom - top],
            score=float(found.scores[i]),
        )
        if found.masks is not None:
            row['segmentation'] = encode_runs(found.masks[i])
        rows.append(row)
    return rows


class LabelMapWriter(Writer):
    """One grayscale PNG per image, named after it, with the values of the dataset's label maps.

    These are the labels plus ``offset``: 1 if the classes of the dataset start at 1.
    """

    def __init__(self, folder: Path, offset: int) -> None:
        self.folder, self.offset = folder, offset

    def write(self, frame: Frame, result: LabelMap) -> None:
        write_labels(self.folder / frame.labels, result.labels + self.offset)
        self.finished = f'label maps in {self.folder}'


class DrawingWriter(Writer):
    """Visualizations named after the images, and one ``.mp4`` per video.

    ``draw`` draws a result into a copy of its image, (H, W, 3) BGR.
    """

    def __init__(self, folder: Path, draw: Callable[[NDArray, Result], NDArray]) -> None:
        self.folder, self.draw = folder, draw
        self.video: cv2.VideoWriter | None = None
        self.path: Path | None = None  # of the current video
        self.partial = ExitStack()

    def write(self, frame: Frame, result: Result) -> None:
        """Write an image, or append to the video."""
        path, drawn = self.folder / frame.source.drawing, self.draw(frame.image, result)
        if self.path not in (None, path):
            self.close()
        if frame.number is None:
            write_image(path, drawn)
            self.finished = f'visualizations in {self.folder}'
            return
        odd = [side % 2 for side in drawn.shape[:2]]  # the codec would drop the last row or column
        drawn = cv2.copyMakeBorder(drawn, 0, odd[0], 0, odd[1], cv2.BORDER_REPLICATE)
        if self.video is None:
            self.start(path, frame.rate, drawn.shape[:2])
        self.video.write(drawn)

    def start(self, path: Path, rate: float, size: tuple[int, int]) -> None:
        """Start a video of (H, W) pixels.

        Raises:
            UserError: If OpenCV cannot write one here.
        """
        self.path = path
        self.work = self.partial.enter_context(partial_folder(path))
        name, codec = os.fsencode(self.work / path.name), cv2.VideoWriter_fourcc(*'mp4v')
        digits = 3 if rate < 65 else 2 if rate < 655 else 1  # MPEG-4 counts up to 65,535 a second
        self.video = cv2.VideoWriter(name, codec, round(rate, digits), size[::-1])
        if not self.video.isOpened():
            raise UserError(f'OpenCV cannot write {path}: pass --no-save-vis')

    def close(self) -> None:
        """Rename the complete video to its final name."""
        if self.video is not None:
            self.video.release()
            publish(self.work, self.path)
            self.finished = f'visualizations in {self.folder}'
        self.abandon()

    def abandon(self) -> None:
        self.partial.close()
        self.video = self.path = None


def check_outputs(
    sources: Iterable[Media], *, drawings: Path | None = None, labels: Path | None = None
) -> None:
    """Check in advance that all results, in the two folders, have different files.

    Raises:
        UserError: If an input or a result would be overwritten, or a file cannot be written.
    """
    for folder in filter(None, (drawings, labels)):
        check_output(folder, folder=True)
    sources = list(sources)
    taken = {source.path.resolve(): source.path for source in sources if source.image is None}
    for source in sources:
        targets = [] if drawings is None else [(drawings / source.drawing, False)]
        if labels is not None:  # a video has a folder of them
            targets.append((labels / source.labels, source.is_video))
        for target, is_folder in targets:
            other = taken.get(check_output(target, folder=is_folder).resolve())
            if other is not None:
                raise UserError(
                    f'the result {target} of {source.path} would overwrite {other} or its result: '
                    'choose other folders for --out-dir and --label-map-dir, or fewer inputs'
                )
            taken[target.resolve()] = source.path
