"""The tables of docs/results.md are those of the metafile."""

from dataclasses import replace

from docs.hooks.results import PAGE, numbers, row, tables, with_tables
from mmeffvit.zoo import Result, find_model


def test_the_page_is_up_to_date_with_the_metafile():
    # after a change of the metafile: python docs/hooks/results.py
    assert PAGE.read_text() == with_tables(PAGE.read_text(), tables())


def test_submetrics_follow_their_metric():
    metrics = {'box AP': 38.8, 'box AP50': 59.8, 'box APs': 22.0, 'mask AP': 35.0, 'mIoU': 1.0}
    assert numbers(metrics) == '38.8 box AP (AP50 59.8, APs 22.0), 35.0 mask AP, 1.0 mIoU'
    assert numbers({}) == ''


def test_our_numbers_get_their_own_column():
    model = find_model('semfpn_swiftformer_l1_ade20k')
    *_, published, by, ours = row(model)
    assert ours == ''
    measured = Result('segmentation', 'ADE20K', {'mIoU': 41.5}, 'ours')
    *same, ours = row(replace(model, results=(*model.results, measured)))
    assert same[-2:] == [published, by]
    assert ours == '41.5 mIoU'
