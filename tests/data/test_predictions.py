"""Predictions of other programs become labels, with classes by name and scores."""

import copy
import json
import random
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmeffvit.data.predictions import Wanted, read_predictions
from mmeffvit.errors import UserError
from tests.hostile.damage import mutate_json

BOXES = [[4, 4, 10, 12], [20, 8, 30, 30], [1, 2, 3, 4]]
SCORES = [0.9, 0.5, 0.1]


@pytest.fixture
def photos(tmp_path) -> Path:
    (tmp_path / 'photos' / 'more').mkdir(parents=True)
    for name in ('a.png', 'more/b.png'):
        cv2.imwrite(str(tmp_path / 'photos' / name), np.zeros((48, 64, 3), np.uint8))
    return tmp_path / 'photos'


def images() -> list[dict]:
    names = ('a.png', 'more/b.png')
    return [dict(id=i, file_name=name, height=48, width=64) for i, name in enumerate(names, 5)]


def results() -> list[dict]:
    rows = zip(BOXES, SCORES, (1, 2, 1), strict=True)
    return [dict(image_id=5, bbox=box, score=s, category_id=c) for box, s, c in rows]


def categories(*names: str) -> list[dict]:
    return [dict(id=i, name=name) for i, name in enumerate(names, 1)]


def whole(**changes: object) -> dict[str, list]:
    """Predictions with all that COCO files have."""
    named = categories('bolt', 'nut')
    return dict(images=images(), categories=named, annotations=results()) | changes


def save(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def found(path: Path, photos: Path, **wanted: object) -> list[tuple]:
    data = read_predictions(path, photos, Wanted(**wanted))
    assert not data.findings.counts, data.findings
    return [
        (picture.path.name, data.classes[item.label], item.score)
        for picture in data.splits['train']
        for item in picture.objects
    ]


def test_three_forms_of_results_are_read_alike(photos, tmp_path):
    expected = [('a.png', 'bolt', 0.9), ('a.png', 'nut', 0.5)]
    assert found(save(tmp_path / 'whole.json', whole()), photos) == expected
    listed = save(tmp_path / 'list.json', results())
    save(tmp_path / 'list.images.json', images())
    assert found(listed, photos, classes=['bolt', 'nut']) == expected
    ids = save(tmp_path / 'known.json', whole())
    assert found(save(tmp_path / 'other.json', results()), photos, ids=ids) == expected


def test_classes_are_matched_by_name_and_scores_are_cut_off(photos, tmp_path):
    path = save(tmp_path / 'whole.json', whole())
    assert found(path, photos, classes=['gear', 'nut']) == [('a.png', 'nut', 0.5)]
    assert found(path, photos, min_score=0.6) == [('a.png', 'bolt', 0.9)]
    data = read_predictions(path, photos, Wanted())
    assert [(p.is_predicted, len(p.objects)) for p in data.splits['train']] == [
        (True, 2),
        (True, 0),  # no object is a prediction as well
    ]


@pytest.mark.parametrize(
    ('content', 'wanted', 'words'),
    [
        ([], {}, 'is empty: there is nothing to learn from'),
        ({'info': {}}, {}, 'neither a list of COCO results nor a COCO file'),
        (results(), {}, 'ids in place of class names: give --ids'),
        (results(), dict(classes=['bolt', 'nut']), r'images\.json is not beside it'),
        (
            whole(annotations=[{**results()[0], 'score': 7}]),
            {},
            'prediction 1 has the score 7; give 0 to 1',
        ),
    ],
)
def test_predictions_that_do_not_fit_are_a_user_error(content, wanted, words, photos, tmp_path):
    path = save(tmp_path / 'predictions.json', content)
    with pytest.raises(UserError, match=words):
        read_predictions(path, photos, Wanted(**wanted))


def test_broken_files_are_faults_or_user_errors(photos, tmp_path):
    dice, outcomes = random.Random(0), Counter()
    for _ in range(200):
        damaged = copy.deepcopy(whole())
        mutate_json(damaged, dice)
        try:
            data = read_predictions(save(tmp_path / 'damaged.json', damaged), photos, Wanted())
        except UserError as error:
            outcomes['error' if '\n' not in str(error) else 'lines'] += 1
        else:
            outcomes['fault' if data.findings.counts else 'read'] += 1
    assert not outcomes['lines']
    assert min(outcomes[kind] for kind in ('error', 'fault', 'read')) > 10


def test_label_maps_are_matched_by_the_names_of_images_and_classes(photos, tmp_path):
    maps = tmp_path / 'maps'
    (maps / 'more').mkdir(parents=True)
    for name in ('a.png', 'more/b.png'):
        cv2.imwrite(str(maps / name), np.tile(np.uint8([0, 1, 2, 255]), (48, 16)))
    (maps / 'classes.txt').write_text('road\nsky\ncar\n')
    data = read_predictions(maps, photos, Wanted(classes=('sky', 'tree', 'road')))
    assert data.classes == ['sky', 'tree', 'road']
    assert [picture.colors for picture in data.splits['train']] == [{0: 2, 1: 0, 2: 255}] * 2
    with pytest.raises(UserError, match='no class of the student'):
        read_predictions(maps, photos, Wanted(classes=('sea',)))
    (tmp_path / 'empty').mkdir()
    with pytest.raises(UserError, match='label maps for none of the images'):
        read_predictions(tmp_path / 'empty', photos, Wanted())


def test_ids_are_no_names_of_classes_that_others_have_given(photos, tmp_path):
    maps = tmp_path / 'maps'
    maps.mkdir()
    cv2.imwrite(str(maps / 'a.png'), np.tile(np.uint8([0, 1]), (48, 32)))
    path = save(tmp_path / 'found.json', results())
    save(tmp_path / 'found.images.json', images())
    for source, words in ((path, 'give --ids ANNOTATIONS.json'), (maps, 'write a table')):
        assert read_predictions(source, photos, Wanted(classes=('bolt', 'nut'))).splits['train']
        with pytest.raises(UserError, match=words):
            read_predictions(source, photos, Wanted(classes=('bolt', 'nut'), are_numbered=False))
