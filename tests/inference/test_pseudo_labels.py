"""A teacher's predictions are made once."""

import json
import shutil

import pytest

from mmeffvit.data.files import find_images
from mmeffvit.data.predictions import Wanted
from mmeffvit.errors import UserError
from mmeffvit.inference import pseudo_labels
from mmeffvit.inference.predictor import Predictor
from mmeffvit.inference.pseudo_labels import Teacher
from mmeffvit.train.folder.distill import describe_teacher
from tests.inference.untrained import save_untrained
from tests.learning.cases import BY_HEAD


@pytest.mark.parametrize('head', ['SSDLite', 'Semantic FPN'])
def test_predictions_of_a_model_are_made_once_and_kept(head, tmp_path, request, log, monkeypatch):
    monkeypatch.setattr(pseudo_labels, 'SHARD', 1)
    case = BY_HEAD[head]
    data = request.getfixturevalue(case.data)
    model = save_untrained(case, tmp_path / 'model', data)
    predictor = Predictor(model.config, model.checkpoint, device='cpu')
    folder = data / ('val2017' if predictor.is_detector else 'images/training')
    folder = shutil.copytree(folder, tmp_path / 'images')
    described = describe_teacher(str(model.config), str(model.checkpoint))
    arguments = (described, folder, tmp_path / 'cache', Wanted(min_score=0.0))
    first = Teacher('model', predictor).predict(*arguments, keep_masks=False)
    assert 'predictions of the teacher for ' in log.text
    assert ' MiB in ' in log.text
    pictures = first.splits['train']
    assert [picture.path for picture in pictures] == find_images(folder)
    assert all(picture.is_predicted for picture in pictures)
    if predictor.is_detector:
        found = predictor(folder)
        assert [len(p.objects) for p in pictures] == [len(each) for each in found]
    (tmp_path / 'cache' / f'{1:06d}.json').unlink()  # as if interrupted
    calls = []
    monkeypatch.setattr(predictor, 'predict', lambda batch, own=predictor.predict: calls.append(
        len(batch)) or own(batch))  # fmt: skip
    again = Teacher('model', predictor).predict(*arguments, keep_masks=False)
    assert calls == [1]
    assert [p.objects for p in again.splits['train']] == [p.objects for p in pictures]
    shard = tmp_path / 'cache' / f'{0:06d}.json'
    (row,) = json.loads(shard.read_text())
    key = 'objects' if predictor.is_detector else 'label_map'
    for odd in (5, [5], [{}], {'a': 1}, [{**row, 'file_name': [1]}], [{**row, 'file_name': 'x'}],
                [{**row, 'height': 'a'}], [{**row, key: 5}], [{**row, key: [5]}],
                [{**row, key: '../000001.png'}]):  # fmt: skip
        shard.write_text(json.dumps(odd))
        with pytest.raises(UserError, match=r'000000\.json'):
            Teacher('model', predictor).predict(*arguments, keep_masks=False)
    shard.unlink()
    with pytest.raises(UserError, match='teacher'):
        Teacher('model', predictor).predict(dict(teacher='other'), *arguments[1:], keep_masks=False)
    shutil.copy(pictures[1].path, pictures[0].path)  # an image was replaced
    with pytest.raises(UserError, match='of other images'):
        Teacher('model', predictor).predict(*arguments, keep_masks=False)
