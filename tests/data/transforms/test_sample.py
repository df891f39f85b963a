"""Labels drawn by their scores are soft labels in the mean."""

import json

import numpy as np
import pytest

from mmeffvit.data.transforms import SampleByScore
from mmeffvit.models.detection import ScoredCocoDataset


def test_the_mean_of_drawn_labels_is_their_score_and_sure_ones_are_always_there():
    scores = (0.2, 0.5, 0.7, 0.95, None)
    instances = [dict(bbox=i) | ({} if s is None else dict(score=s)) for i, s in enumerate(scores)]
    sample, counts = SampleByScore(sure=0.7), np.zeros(5)
    for _ in range(2000):
        kept = sample.transform(dict(instances=instances))['instances']
        counts[[instance['bbox'] for instance in kept]] += 1
    # three standard deviations of the mean of 2000 draws
    assert np.abs(counts / 2000 - [0.2, 0.5, 1, 1, 1]).max() < 3 * 0.5 / 2000**0.5
    with pytest.raises(ValueError, match='sure is 1'):
        SampleByScore(sure=1.2)


def test_a_data_set_has_the_scores_of_its_file(tmp_path):
    boxes = [dict(bbox=[1, 1, 9, 9], score=0.4), dict(bbox=[0, 0, 0, 0]), dict(bbox=[2, 2, 8, 8])]
    content = dict(
        info={},
        images=[dict(id=1, file_name='a.png', height=32, width=32)],
        categories=[dict(id=1, name='bolt')],
        annotations=[
            dict(id=i, image_id=1, category_id=1, area=64, iscrowd=0, **box)
            for i, box in enumerate(boxes, 1)
        ],
    )
    (tmp_path / 'found.json').write_text(json.dumps(content))
    dataset = ScoredCocoDataset(
        ann_file=str(tmp_path / 'found.json'),
        data_prefix=dict(img=''),
        metainfo=dict(classes=('bolt',)),
        pipeline=[],
    )
    instances = dataset.get_data_info(0)['instances']
    assert [(i['bbox'], i['score']) for i in instances] == [
        ([1, 1, 10, 10], 0.4),
        ([2, 2, 10, 10], 1.0),
    ]
