"""A student learns from files of predictions, exported files and models."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from benchmarks.students import write_few
from mmeffvit import ExportedPredictor
from mmeffvit.cli.distill import open_teacher
from mmeffvit.config.load import load_config
from mmeffvit.data.predictions import Wanted
from mmeffvit.data.prepare import PrepareOptions
from mmeffvit.data.shapes import CLASSES
from mmeffvit.errors import UserError
from mmeffvit.train.folder.base import Base
from mmeffvit.train.folder.distill import DistillOptions, make_reader, open_student, steps_of
from tests.conftest import output_of, rejected
from tests.data.sets import write_maps
from tests.deploy import models
from tests.inference.untrained import save_untrained
from tests.learning.cases import BY_HEAD

STUDENT = 'rtmdet_swiftformer_xs'
FAST = ('--epochs', 1, '--weights', 'none', '--nproc-per-node', 1, '--export', 'none')


@pytest.fixture
def predicted(shapes, tmp_path) -> Path:
    """The labels of the generated images as predictions with scores."""
    content = json.loads((shapes / 'annotations' / 'instances_train2017.json').read_text())
    for number, row in enumerate(content['annotations']):
        row['score'] = (0.5, 0.9, 0.2)[number % 3]
    (tmp_path / 'predicted.json').write_text(json.dumps(content))
    return tmp_path / 'predicted.json'


@pytest.fixture
def few(shapes, tmp_path) -> Path:
    """Labels of three of the images, and of those held out."""
    return write_few(shapes, tmp_path / 'few', 3)


@pytest.mark.slow
def test_a_student_is_trained_on_predictions_and_compared_with_itself_alone(
    shapes, predicted, few, tmp_path
):
    work_dir = tmp_path / 'work'
    printed = output_of(
        'distill', STUDENT, predicted, shapes / 'train2017', '--labeled', few,
        '--work-dir', work_dir, *FAST,
    )  # fmt: skip
    config = (work_dir / f'{STUDENT}.py').read_text()
    assert "type='mmeffvit.SampleByScore', sure=0.7" in config
    assert "type='mmeffvit.ScoredCocoDataset'" in config
    content = json.loads((work_dir / 'index' / 'train.json').read_text())
    assert len(content['images']) == 12  # three of them with the labels of a person
    scores = [row.get('score', 1.0) for row in content['annotations']]
    assert set(scores) == {0.5, 0.9, 1.0}
    assert 'the student on the same validation images, in percent' in printed
    table = [line.split() for line in printed.splitlines() if line.startswith(('alone', 'dist'))]
    assert [row[:2] for row in table] == [['alone', '4'], ['distilled', '4']]
    assert (work_dir / 'result' / 'curves.png').is_file()
    name, weights, classes = open_student(str(work_dir))  # it can learn more
    assert (name, Path(weights).parent, classes) == (STUDENT, work_dir / 'run', CLASSES)


@pytest.mark.slow
@pytest.mark.variant
def test_a_segmentor_is_trained_on_label_maps_without_labels(tmp_path):
    root = write_maps(tmp_path / 'parts') or tmp_path / 'parts'
    printed = output_of(
        'distill', 'segformer_swiftformer_xs_ade20k', root / 'masks', root / 'images',
        '--work-dir', tmp_path / 'work', '--image-size', 64, *FAST,
    )  # fmt: skip
    assert '\n  mIoU ' in printed


@pytest.mark.slow
@pytest.mark.variant
def test_a_student_learns_from_a_config_and_its_checkpoint_in_every_step(shapes, tmp_path):
    teacher = save_untrained(BY_HEAD['SSDLite'], tmp_path / 'model', shapes)
    work_dir = tmp_path / 'work'
    printed = output_of(
        'distill', STUDENT, teacher.config, teacher.checkpoint, shapes / 'train2017',
        '--min-score', 0, '--sure-score', 0, '--losses', 'cwd', 'imitation',
        '--work-dir', work_dir, *FAST,
    )  # fmt: skip
    assert re.search(r'a step took \d+ ms, of which the teacher \d+ ms', printed)
    config = (work_dir / f'{STUDENT}.py').read_text()
    assert "losses=('cwd', 'imitation')" in config
    assert str(teacher.config) not in config  # a name of the user's, beside it
    assert json.loads((work_dir / 'data.json').read_text())['teacher'] == str(teacher.config)
    message = rejected(
        'distill', STUDENT, teacher.config, teacher.checkpoint, shapes / 'train2017', *FAST,
        '--nproc-per-node', 2,
    )  # fmt: skip
    assert 'a teacher runs in one process: give --losses none' in message


def test_a_run_that_stopped_early_is_compared_for_the_steps_that_it_took(tmp_path):
    (tmp_path / 'run').mkdir()
    (tmp_path / f'{STUDENT}.py').write_text('epochs, iterations, batch, processes = 5, 10, 4, 2')
    for epoch in (2, 3):
        content = dict(state_dict={'a': torch.zeros(1)}, meta=dict(epoch=epoch, iter=12 * epoch))
        torch.save(content, tmp_path / 'run' / f'epoch_{epoch}.pth')
    assert steps_of(tmp_path, Base.of(STUDENT)) == (36, 8)


def test_an_exported_file_teaches_what_it_predicts(shapes, tmp_path):
    path = models.file_for_any_size('retinanet_swiftformer_l1')
    options = DistillOptions(wanted=Wanted(min_score=0.0, sure_score=0.0))
    read = make_reader(str(path), Base.of(STUDENT), tmp_path, options, open_teacher)
    data = read(shapes / 'val2017', PrepareOptions())
    teacher = ExportedPredictor(path)
    assert data.classes == list(teacher.classes)
    pictures = {picture.path: picture for split in data.splits.values() for picture in split}
    found = teacher(shapes / 'val2017')
    assert pictures.keys() == {result.path for result in found}
    for result in found:
        objects = pictures[result.path].objects
        assert 0 < len(objects) <= len(result)  # boxes without a pixel in the image are left out
        assert {item.score for item in objects} <= set(result.scores.tolist())


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (('nothing', 'FILE', 'IMAGES'), "the student is 'nothing'; give the name of one of our"),
        ((STUDENT, 'FILE', 'nowhere'), 'nowhere is not a folder'),
        (('segformer_swiftformer_xs_ade20k', 'FILE', 'IMAGES'), 'choose models of the same task'),
        ((STUDENT, 'IMAGES', 'IMAGES'), 'predicts label maps, the student'),
        ((STUDENT, 'FILE', 'IMAGES', '--classes', 'gear'), 'no class of the student'),
        ((STUDENT, 'FILE', 'IMAGES', '--min-score', 0.95), 'give 0 to 1, the first no larger'),
        (
            (STUDENT, 'FILE', 'IMAGES', '--min-score', 0.95, '--sure-score', 1),
            'with a score of 0.95 or more',
        ),
        (
            (STUDENT, 'FILE', 'IMAGES', '--sure-score', 1),
            'images of validation has a score of 1.0 or more: give a lower --sure-score',
        ),
        ((STUDENT, 'FILE', 'OTHERS'), 'for none of the 4 images'),
        ((STUDENT, 'OUTSIDE', 'IMAGES'), 'reach outside of their image (1); --skip-broken'),
        ((STUDENT, 'FILE', 'a', 'b', 'IMAGES'), '3 arguments after the teacher'),
    ],
)
def test_mistakes_end_in_one_message(arguments, words, shapes, predicted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = json.loads(predicted.read_text())
    content['annotations'][1]['bbox'] = [50, 50, 40, 10]
    (tmp_path / 'outside.json').write_text(json.dumps(content))
    (tmp_path / 'others').mkdir()
    for number in range(4):
        shutil.copy(shapes / 'val2017' / '000000.png', tmp_path / 'others' / f'x{number}.png')
    known = dict(FILE=predicted, IMAGES=shapes / 'train2017', OTHERS='others',
                 OUTSIDE='outside.json')  # fmt: skip
    assert words in rejected('distill', *(known.get(a, a) for a in arguments))
    assert not list(tmp_path.glob('work_dirs/*/run'))


def test_a_student_with_other_numbers_than_ours_is_rejected(tmp_path):
    load_config(STUDENT, {'model.data_preprocessor.mean': [9.0] * 3}).dump(tmp_path / 'own.py')
    torch.save(dict(state_dict={}), tmp_path / 'epoch_1.pth')
    with pytest.raises(
        UserError, match=rf'differs from {STUDENT}.* model\.data_preprocessor\.mean'
    ):
        open_student(str(tmp_path))
