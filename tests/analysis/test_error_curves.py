"""Figures and tables of the error analysis, and its tool."""

import json

import cv2
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from mmeffvit.analysis.coco_errors import CURVES, SIZES, ErrorAnalysis
from mmeffvit.analysis.error_curves import COLORS, analyze, draw_curves
from mmeffvit.data.shapes import CLASSES
from mmeffvit.errors import UserError


def colors_in(path) -> set[tuple[int, ...]]:
    picture = cv2.imread(str(path))[..., ::-1]
    return {tuple(color) for color in np.unique(picture.reshape(-1, 3), axis=0).tolist()}


def test_every_error_has_its_color_in_the_picture(tmp_path):
    steps = np.linspace(0.1, 1.0, 7)[:, None, None, None]
    precision = np.broadcast_to(steps, (7, 101, 1, 4))
    analysis = ErrorAnalysis('bbox', ('cat',), np.ones((1, 4), int), precision)
    draw_curves(analysis, tmp_path / 'cat.png', 'cat')
    wanted = {tuple(round(255 * part) for part in to_rgb(color)) for color in COLORS}
    assert len(wanted) == 7
    assert wanted <= colors_in(tmp_path / 'cat.png')


def test_tables_and_pictures_are_written_for_boxes_and_masks(perfect, shapes, tmp_path):
    perfect[0]['category_id'] = perfect[0]['category_id'] % 4 + 1  # a wrong class
    path, out = tmp_path / 'found.json', tmp_path / 'out'
    path.write_text(json.dumps(perfect))
    annotations = shapes / 'annotations' / 'instances_val2017.json'
    with pytest.raises(UserError, match='--classes is for'):
        analyze(path, annotations, out, classes=['nope'])
    analyses = analyze(path, annotations, out, types=('bbox', 'segm'), per_class=True)
    printed = '\n'.join(map(str, analyses))
    for kind, things in (('bbox', 'boxes'), ('segm', 'masks')):
        folder = out / kind
        assert (folder / 'errors.md').read_text().strip() in printed
        assert f'# Errors of {things}' in printed
        content = json.loads((folder / 'errors.json').read_text())
        assert list(content['classes']) == list(CLASSES)
        assert set(content['mean']) == set(SIZES)
        assert list(content['mean']['all']) == list(CURVES)
        assert content['mean']['large'] == dict.fromkeys(CURVES)  # there are no large shapes
        assert content['mean']['all']['C50'] < content['mean']['all']['FN'] == 1
        assert cv2.imread(str(folder / 'errors.png')).shape == (680, 880, 3)
        names = json.loads((folder / 'classes' / 'names.json').read_text())
        assert list(names.values()) == list(CLASSES)
        pictures = {file.name for file in (folder / 'classes').glob('*.png')}
        assert pictures == set(names)
