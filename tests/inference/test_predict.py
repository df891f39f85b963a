"""Every head predicts; inputs of all kinds are found, and unreadable ones are reported."""

import json
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from mmeffvit.errors import UserError
from mmeffvit.inference.inputs import Frame, Media, find_inputs
from mmeffvit.inference.predict import PredictOptions, predict
from mmeffvit.inference.predictor import Predictor
from mmeffvit.inference.results import LabelMap
from mmeffvit.inference.writers import DrawingWriter, LabelMapWriter
from tests.hostile.world import write_video
from tests.inference.untrained import FEW, Untrained, save_untrained
from tests.learning.cases import BY_HEAD, CASES

DETECTORS = [case.head for case in CASES if case.data == 'shapes']
SEGMENTORS = [case.head for case in CASES if case.data != 'shapes']


@pytest.fixture(scope='session')
def untrained(tmp_path_factory, request):
    """A function from the name of a head to its files, written once."""
    folder, made = tmp_path_factory.mktemp('untrained'), {}

    def get(head: str) -> Untrained:
        if head not in made:
            data = request.getfixturevalue(BY_HEAD[head].data)
            made[head] = save_untrained(BY_HEAD[head], folder / head.replace(' ', '_'), data)
        return made[head]

    return get


@pytest.fixture
def photos(ade_shapes) -> Path:
    """Two images of one size that are wider than high."""
    return ade_shapes / 'images' / 'training'


def run(
    files: Untrained, *inputs: Path | str, cfg_options: dict | None = None, **options: object
) -> int:
    """Predict, print as the command does, and return the number of skipped inputs."""
    open_predictor = partial(
        Predictor, files.config, files.checkpoint, device='cpu', cfg_options=cfg_options
    )
    report = partial(print, file=sys.stderr)
    summary = predict(open_predictor, list(map(str, inputs)), PredictOptions(**options), report)
    print(summary)
    return len(summary.skipped)


@pytest.mark.parametrize('head', DETECTORS)
def test_every_detector_writes_coco_results_and_pictures(head, untrained, shapes, tmp_path, capsys):
    images = sorted((shapes / 'val2017').glob('*.png'))
    options = dict(out=tmp_path / 'found.json', drawings=tmp_path / 'pictures', batch_size=3)
    assert run(untrained(head), *images, score_thr=0.0, **options) == 0
    found = json.loads((tmp_path / 'found.json').read_text())
    annotations = json.loads((shapes / 'annotations/instances_val2017.json').read_text())
    known = {image['file_name']: image['id'] for image in annotations['images']}
    listed = json.loads((tmp_path / 'found.images.json').read_text())
    assert {image['file_name']: image['id'] for image in listed} == known
    assert 0 < len(found) <= FEW * len(images)
    assert {row['image_id'] for row in found} <= set(known.values())
    assert {row['category_id'] for row in found} <= {1, 2, 3, 4}
    assert all(0 <= row['score'] <= 1 and len(row['bbox']) == 4 for row in found)
    assert all(('segmentation' in row) == (head == 'Mask R-CNN') for row in found)
    for image in images:
        drawn, original = (
            cv2.imread(str(tmp_path / 'pictures' / image.name)),
            cv2.imread(str(image)),
        )
        assert drawn.shape == original.shape
        assert (drawn != original).any() == (known[image.name] in {r['image_id'] for r in found})
    assert not list(tmp_path.rglob('*partial*'))
    assert 'instances_val2017.json' in capsys.readouterr().out


@pytest.mark.parametrize('head', SEGMENTORS)
def test_every_segmentor_writes_label_maps_and_pictures(head, untrained, photos, tmp_path, capsys):
    options = dict(label_maps=tmp_path / 'maps', drawings=tmp_path / 'pictures', batch_size=2)
    assert run(untrained(head), photos, **options) == 0
    for image in sorted(photos.glob('*.jpg')):
        with (
            Image.open(image) as original,
            Image.open(tmp_path / f'maps/{image.stem}.png') as labels,
        ):
            assert labels.size == original.size
            values = np.asarray(labels)
        assert values.ndim == 2
        assert 1 <= values.min() <= values.max() <= 150  # as in ADE20K's own label maps
        assert (tmp_path / 'pictures' / image.name).is_file()
    assert 'values: 1 is wall, 150 is flag' in capsys.readouterr().out


def test_results_do_not_depend_on_the_batch(untrained, shapes, tmp_path):
    written = []
    for size in (1, 4):
        out = tmp_path / f'{size}.json'
        assert run(untrained('RetinaNet'), shapes / 'val2017', out=out, batch_size=size) == 0
        written.append(json.loads(out.read_text()))
    assert len(written[0]) == len(written[1]) > 0
    for one, four in zip(*written, strict=True):
        assert one['image_id'] == four['image_id']
        assert one['score'] == pytest.approx(
            four['score'], abs=1e-4
        )  # other summation orders round differently


def test_the_score_threshold_applies_to_results(untrained, shapes, tmp_path, capsys):
    out = tmp_path / 'found.json'
    assert run(untrained('Mask R-CNN'), shapes / 'val2017', out=out) == 0
    scores = [row['score'] for row in json.loads(out.read_text())]
    between = sorted(scores)[len(scores) // 2]
    assert run(untrained('Mask R-CNN'), shapes / 'val2017', out=out, score_thr=between) == 0
    kept = [row['score'] for row in json.loads(out.read_text())]
    assert kept == [score for score in scores if score >= between]
    assert run(untrained('Mask R-CNN'), shapes / 'val2017', out=out, score_thr=1) == 0
    highest = f'{max(scores):.2g}'
    assert f'0 objects above 1 (highest {highest})' in capsys.readouterr().out


def test_images_without_annotations_get_consecutive_ids(untrained, shapes, tmp_path):
    unlisted = tmp_path / 'in' / '000000.png'  # has the name of an image of the annotation file
    unlisted.parent.mkdir()
    shutil.copy(shapes / 'train2017' / '000000.png', unlisted)
    out = tmp_path / 'found.json'
    assert run(untrained('RetinaNet'), unlisted, shapes / 'val2017/000003.png', out=out) == 0
    listed = json.loads((tmp_path / 'found.images.json').read_text())
    assert [image['id'] for image in listed] == [4, 3]  # the file has 0 to 3


@pytest.mark.parametrize(
    ('content', 'reason'), [(None, 'no annotation file'), ('[' * 100_000, 'nested too deeply')]
)
def test_without_valid_annotations_category_ids_are_consecutive(
    content, reason, untrained, shapes, tmp_path, capsys
):
    path = tmp_path / 'other.json'
    if content:
        path.write_text(content)
    other = {'test_dataloader.dataset.ann_file': str(path)}
    image = shapes / 'val2017/000000.png'
    options = dict(out=tmp_path / 'found.json', cfg_options=other)
    assert run(untrained('RetinaNet'), image, **options) == 0
    assert re.search(rf'category ids: label \+ 1 \(.*{reason}', capsys.readouterr().out)


@pytest.mark.parametrize('head', ['Mask R-CNN', 'SegFormer'])
def test_a_video_becomes_a_video_with_results_per_frame(head, untrained, tmp_path):
    clip = tmp_path / 'clip.mp4'
    write_video(clip, 'mp4v')
    name, out = ('out', 'found.json') if head in DETECTORS else ('label_maps', 'maps')
    pictures, out = tmp_path / 'pictures', tmp_path / out
    options = {name: out, 'drawings': pictures, 'batch_size': 3}
    assert run(untrained(head), clip, **options) == 0
    drawn = cv2.VideoCapture(str(pictures / 'clip.mp4'))
    assert drawn.get(cv2.CAP_PROP_FRAME_COUNT) == 8
    assert drawn.get(cv2.CAP_PROP_FPS) == 10
    assert drawn.get(cv2.CAP_PROP_FRAME_WIDTH) == 64
    names = [f'clip.mp4/{number:06d}.png' for number in range(8)]
    if head in DETECTORS:
        listed = json.loads((tmp_path / 'found.images.json').read_text())
        assert [image['file_name'] for image in listed] == names
    else:
        assert sorted(str(path.relative_to(out)) for path in out.rglob('*.png')) == names


@pytest.mark.parametrize('rate', [59.94, 119.433, 777.77])
def test_drawn_videos_keep_their_rate_and_odd_sides(rate, tmp_path):
    image = np.zeros((63, 65, 3), np.uint8)
    media = Media(*[Path('a.mp4')] * 4)
    writer = DrawingWriter(tmp_path, lambda image, _: image)
    for number in range(3):
        writer.write(Frame(media, number, image, rate), None)
    writer.close()
    drawn = cv2.VideoCapture(str(tmp_path / 'a.mp4'))
    assert drawn.get(cv2.CAP_PROP_FPS) == pytest.approx(rate, rel=1e-4)
    assert drawn.read()[1].shape == (64, 66, 3)


def test_pictures_and_label_maps_of_a_video_need_folders_of_their_own(untrained, tmp_path):
    clip = tmp_path / 'clips/a.mp4'
    clip.parent.mkdir()
    write_video(clip, 'mp4v')
    with pytest.raises(UserError, match=r'a\.mp4 would overwrite .*: choose other folders'):
        run(untrained('PSPNet'), clip, drawings=tmp_path / 'o', label_maps=tmp_path / 'o')
    with pytest.raises(UserError, match=r"output '.*a\.mp4' is a file that exists already"):
        run(untrained('PSPNet'), clip, label_maps=clip.parent)


def test_a_glob_finds_the_files_of_its_folders_once(tmp_path):
    for name in ('x.png', 'sub/y.png', 'sub/n.txt'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b'')
    found = find_inputs([f'{tmp_path}/**'], unique=False)
    assert sorted(source.path.name for source in found.sources) == ['x.png', 'y.png']
    assert (found.others, found.unreadable) == ({'.txt': 1}, [])


def test_invalid_arguments_are_reported_before_the_first_image(untrained, shapes, tmp_path):
    detector, segmentor = untrained('RetinaNet'), untrained('PSPNet')
    image = shapes / 'val2017/000000.png'
    for match, files, options in (
        ('give --out FILE.json', detector, dict(label_maps=tmp_path / 'maps')),
        ('give --label-map-dir', segmentor, dict(out=tmp_path / 'maps.json')),
        ('would write nothing', detector, {}),
    ):
        with pytest.raises(UserError, match=match):
            run(files, image, **options)
    with pytest.raises(UserError, match='classes wall'):
        run(Untrained(detector.config, segmentor.checkpoint), image, drawings=tmp_path / 'p')


NAMES = ('a/1.png', 'b/1.png', '2.png', '2.jpg', '2.bmp', '2.bmp.png')


def test_every_input_has_a_picture_and_a_label_map_of_its_own(untrained, shapes, tmp_path, capsys):
    photos = tmp_path / 'photos'
    for name in NAMES:
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        Image.open(shapes / 'val2017/000000.png').save(photos / name)
    options = dict(drawings=tmp_path / 'pictures', label_maps=tmp_path / 'maps')
    arguments = [photos / 'a', photos / 'b', *(photos / name for name in NAMES[2:])]
    assert run(untrained('PSPNet'), *arguments, **options) == 0
    for folder in ('pictures', 'maps'):
        written = [path for path in (tmp_path / folder).rglob('*') if path.is_file()]
        assert len(written) == len(NAMES), written
        assert {path.relative_to(tmp_path / folder).parts[0] for path in written} >= {'a', 'b'}
    assert f'{len(NAMES)} images\n' in capsys.readouterr().out


def test_an_interruption_leaves_finished_pictures_and_no_unfinished_file(
    untrained, shapes, tmp_path, monkeypatch
):
    predict_batch, calls = Predictor.predict, []

    def interrupted(self: Predictor, batch: list) -> list:
        calls.append(batch)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return predict_batch(self, batch)

    monkeypatch.setattr(Predictor, 'predict', interrupted)
    clip = tmp_path / 'clip.mp4'
    write_video(clip, 'mp4v')
    options = dict(out=tmp_path / 'found.json', drawings=tmp_path / 'pictures')
    with pytest.raises(KeyboardInterrupt) as caught:
        run(untrained('RetinaNet'), shapes / 'val2017/000000.png', clip, **options)
    assert caught.value.__notes__ == [f'2 images done: visualizations in {tmp_path / "pictures"}']
    assert {path.name for path in tmp_path.iterdir()} == {'clip.mp4', 'pictures'}
    assert [path.name for path in (tmp_path / 'pictures').iterdir()] == ['000000.png']


@pytest.mark.parametrize(('offset', 'highest', 'kind'), [(0, 2, np.uint8), (1, 300, np.uint16)])
def test_label_maps_are_written_with_the_values_of_the_data_set(offset, highest, kind, tmp_path):
    labels = np.array([[0, 1, 2], [2, highest, 0]])
    source = Media(Path('a.jpg'), Path('a.jpg'), Path('a.jpg'), Path('deep/a.png'))
    frame = Frame(source, None, np.zeros((2, 3, 3), np.uint8))
    LabelMapWriter(tmp_path, offset).write(frame, LabelMap(None, None, labels, ()))
    written = cv2.imread(str(tmp_path / 'deep' / 'a.png'), cv2.IMREAD_UNCHANGED)
    assert written.dtype == kind
    np.testing.assert_array_equal(written, labels + offset)
