"""Models are found by name, task and data, and the metafile is one that OpenMMLab's tools read."""

import pytest

from mmeffvit import list_models
from mmeffvit.zoo import Model, Result, read_models
from mmeffvit.zoo.metafile import OURS
from tests.conftest import ROOT
from tests.variants import check_all

MODELS = read_models()


def test_models_are_listed_by_pattern_task_data_and_weights():
    assert list_models() == sorted(MODELS)
    ssdlite = list_models('*SSDlite*', task='detection', dataset='coco', pretrained=True)
    assert ssdlite == list_models('ssdlite_mobilevitv2_*')
    assert 'maskrcnn_shvit_s4' in list_models(task='detection')
    assert 'maskrcnn_shvit_s4' in list_models(task='instance segmentation')
    assert 'maskrcnn_shvit_s4' not in list_models(task='segmentation')
    assert 'swiftformer_l1' in list_models(task='classification', pretrained=True)
    trained, others = (set(list_models(pretrained=choice)) for choice in (True, False))
    assert trained & others == set()
    assert trained | others == set(MODELS)
    assert list_models('no_such_*') == []


def test_metrics_of_all_tasks_are_joined_by_who_measured_them():
    results = (
        Result('detection', 'COCO', {'box AP': 1.0}, OURS),
        Result('detection', 'COCO', {'box AP': 41.2}, 'paper'),
        Result('instance segmentation', 'COCO', {'mask AP': 38.1}, 'paper'),
        Result('detection', 'COCO', {}),
    )
    model = Model('a', 'A', None, (), 0, 0, (1, 1), results, None, None, None, {})
    assert model.metrics_by_source() == {
        OURS: {'box AP': 1.0},
        'paper': {'box AP': 41.2, 'mask AP': 38.1},
    }
    assert model.published() == ('paper', {'box AP': 41.2, 'mask AP': 38.1})
    assert (model.tasks, model.dataset) == (('detection', 'instance segmentation'), 'COCO')
    alone = Model('a', 'A', None, (), 0, 0, (1, 1), results[:1], None, None, None, {})
    assert alone.published() == ('', {})


def test_every_number_has_a_source_and_released_weights_a_layout_and_a_license():
    check_all(MODELS, check_entry)


def check_entry(name: str) -> None:
    model = MODELS[name]
    # classifiers are tested on a second set as well
    assert len({result.dataset for result in model.results} - {'ImageNetV2'}) == 1
    for result in model.results:
        assert bool(result.metrics) == bool(result.source)
        assert all(0 < value <= 100 for value in result.metrics.values())
    assert (model.weights is None) == (model.weights_layout is None) == (model.license is None)
    if model.weights:
        assert model.license['Name']
        assert model.license['URL'].startswith('https://')


def test_openmmlabs_own_reader_takes_the_metafile():
    modelindex = pytest.importorskip('modelindex', reason="mim's reader: pip install model-index")
    index = modelindex.load(str(ROOT / 'model-index.yml'))
    assert index.check(silent=True) == []
    assert {model.name for model in index.models} == set(MODELS)
    collections = {collection.name for collection in index.collections}
    for model in index.models:
        assert model.in_collection in collections
        assert model.config is None or (ROOT / model.config).is_file()
