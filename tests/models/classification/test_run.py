"""Train, test and reuse a classifier on generated images, as a user does."""

import json
import re
from operator import itemgetter

import pytest

from mmeffvit.deploy.web.page import write_page
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.utils.images import read_image
from mmeffvit.zoo.source import find_source
from tests.conftest import output_of, rejected
from tests.models.classification.models import CLASSES, tiny_student, write_config, write_images


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """The folder of a run on three classes, with its config."""
    folder = tmp_path_factory.mktemp('run')
    for split in ('train', 'val'):
        write_images(folder / 'data' / split, CLASSES)
    student = tiny_student()
    config = write_config(
        folder / 'tiny.py', 'classifier_swiftformer_l1', folder / 'data', student['backbone'],
        teacher=student['teacher'], teacher_ckpt=None,
    )  # fmt: skip
    options = ('--seed', 0, '--cfg-options', 'train_cfg.max_epochs=2')
    printed = output_of('train', config, '--work-dir', folder / 'work', *options)
    assert 'Top 1 Accuracy' in printed
    return folder


def test_a_checkpoint_is_tested_with_the_metric_of_papers(trained):
    checkpoint = trained / 'work' / 'epoch_2.pth'
    options = ('--work-dir', trained / 'test', '--out', trained / 'scores.pkl')
    printed = output_of('test', trained / 'tiny.py', checkpoint, *options)
    (accuracy,) = re.findall(r'Top 1 Accuracy ([\d.]+) %', printed)
    assert 0 <= float(accuracy) <= 100
    assert (trained / 'scores.pkl').is_file()
    weights = read_content(checkpoint)['state_dict']
    assert not any('teacher' in key for key in weights)


@pytest.mark.parametrize(
    ('option', 'words'),
    [
        ('data_root=/nowhere', ("train data: folder '/nowhere/train' does not exist",)),
        (
            'val_evaluator.topk=(1,5)',
            ('needs 5 classes or more, but the model has 3', 'Set val_evaluator.topk=1'),
        ),
    ],
)
def test_data_and_metrics_that_do_not_fit_stop_the_run(option, words, trained, tmp_path):
    message = rejected(
        'train', trained / 'tiny.py', '--work-dir', tmp_path / 'work', '--cfg-options', option
    )
    assert [each for each in words if each not in message] == []


def test_a_command_for_dense_models_says_that_a_classifier_is_none(trained):
    with pytest.raises(UserError, match='is for a classifier'):
        find_source(str(trained / 'tiny.py'))


def scores_of(path) -> list[float]:
    """The scores of the classes in the order of their labels, of every image in a file."""
    rows = json.loads(path.read_text())
    return [
        each['score'] for row in rows for each in sorted(row['classes'], key=itemgetter('label'))
    ]


def test_every_handle_of_a_run_predicts_and_an_exported_file_agrees(trained, tmp_path):
    run, config = trained / 'work', trained / 'tiny.py'
    checkpoint = run / 'epoch_2.pth'
    images = trained / 'data' / 'val'
    file = tmp_path / 'tiny.onnx'
    size = ('--shape', 64, 64, '--image', images / 'dark' / '0.png')
    printed = output_of('export', run, file, *size)
    assert 'scores: relative error' in printed
    found = []
    for index, handle in enumerate([(run,), (checkpoint,), (config, checkpoint), (file,)]):
        out = tmp_path / f'{index}.json'
        outputs = ('--out', out, '--out-dir', tmp_path / 'drawn')
        printed = output_of('predict', *handle, images, *outputs)
        assert re.search(r'bright/0\.png +(dark|bright|striped) +0\.\d{3}\n', printed)
        found.append(scores_of(out))
    assert len(found[0]) == 3 * 12
    assert sum(found[0]) == pytest.approx(12)
    for scores in found[1:]:
        assert scores == pytest.approx(found[0], abs=1e-5)
    drawn, original = (
        read_image(path / 'bright' / '0.png') for path in (tmp_path / 'drawn', images)
    )
    assert drawn.shape == (3 * original.shape[0], 3 * original.shape[1], 3)  # for the text
    with pytest.raises(UserError, match=r'tiny\.onnx is a classifier, and a page shows objects'):
        write_page(file, tmp_path / 'page')
