"""Generated tables agree with the metafile and the measurements, and say what they should."""

import re
import statistics
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs.hooks import papers, plots, tables, zoo
from mmeffvit.config.load import load_config
from mmeffvit.zoo import Result, find_model, list_models, read_models
from mmeffvit.zoo.metafile import OURS, ZOO


@pytest.mark.parametrize('name', tables.MODULES)
def test_a_page_is_up_to_date(name):
    # after a change of the metafile or of measurements: python -m docs.hooks.tables
    assert tables.load(name).PAGE.read_text() == tables.current_page(name)


def rows_of(page) -> list[list[str]]:
    """The cells of all table rows of a page."""
    lines = (line for line in page.read_text().splitlines() if line.startswith('| '))
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]


def test_submetrics_follow_their_metric():
    metrics = {'box AP': 38.8, 'box AP50': 59.8, 'box APs': 22.0, 'mask AP': 35.0, 'mIoU': 1.0}
    shown = '38.8 box AP (AP50 59.8, APs 22.0), 35.0 mask AP, 1.0 mIoU'
    assert tables.numbers(metrics) == shown
    assert tables.numbers({}) == ''


def test_our_numbers_get_a_column_of_their_own_only_where_there_are_some():
    model = find_model('semfpn_swiftformer_l1_ade20k')
    assert '| ours |' not in zoo.section('Semantic FPN', [model])
    measured = Result('segmentation', 'ADE20K', {'mIoU': 12.5}, 'ours')
    with_ours = replace(model, results=(*model.results, measured))
    assert '| ours |' in zoo.section('Semantic FPN', [model, with_ours])
    source, values = model.published()
    cells = zoo.row(with_ours, ['mIoU'], True)
    assert cells[1:3] == [zoo.linked(values['mIoU'], source), '12.5 mIoU']
    assert cells[1] == '[41.4](papers.md#swiftformer-table-3)'


def test_every_model_is_in_the_zoo_in_a_table_if_it_has_a_number():
    page = zoo.PAGE.read_text().partition('<!-- generated')[2]
    rows = re.findall(r'^\| (?:\[(\w+)\]\(\.\.|(\w+_\w+) \|)', page, re.MULTILINE)
    lines = re.findall(r'^- \[(\w+)\]\(\.\.', page, re.MULTILINE)
    models = read_models()
    numbered = [name for name, model in models.items() if model.metrics_by_source()]
    assert sorted(''.join(row) for row in rows) == sorted(numbered)
    assert sorted(lines) == sorted(models.keys() - set(numbered))


def test_every_number_of_a_paper_is_on_its_page_with_its_command():
    lines = papers.PAGE.read_text().splitlines()
    for model in read_models().values():
        for source, metrics in model.metrics_by_source().items():
            if model.config is None or source in (OURS, ZOO):
                continue
            own = [
                line for line in lines if line.startswith(f'mmeffvit {papers.command(model)}  #')
            ]
            assert any(all(str(v) in line for v in metrics.values()) for line in own), model.name


def test_a_command_of_the_papers_trains_at_the_batch_size_of_its_recipe():
    commands = re.findall(r'mmeffvit train (\w+) --nproc-per-node (\d+) ', papers.PAGE.read_text())
    assert len(commands) > 50
    for name, count in commands[::7]:  # reading a config takes a while
        config = load_config(find_model(name).config)
        total = int(count) * config.train_dataloader.batch_size
        assert total == config.auto_scale_lr.base_batch_size, name


def test_the_page_of_papers_lists_what_has_no_row_and_configs_that_are_installed():
    rows = rows_of(papers.PAGE)
    listed = ' '.join(row[0] for row in rows)
    asked = ('SwiftFormer, table 1', 'appendix C', 'SHViT, figure 2', 'SHViT, figure 6',
             'figures 8 and 9', 'MobileViTv2, table 1', 'MobileViTv2, appendix E',
             'Mobile-Attention, figure 4')  # fmt: skip
    assert [source for source in asked if source not in listed] == []
    named = re.findall(r'(mmdet|mmseg|mmpretrain) `(\S+\.py)`', papers.PAGE.read_text())
    assert len(named) > 8
    for package, config in named:
        (folder,) = find_spec(package).submodule_search_locations
        assert (Path(folder) / '.mim' / 'configs' / config).is_file(), config


def test_every_released_model_has_a_row_with_its_address_and_its_family_a_license():
    page = zoo.PAGE.read_text()
    rows = re.findall(r'^\| \[?(\w+)\]?.*\| \[[\w ]+\]\(http.*\) \|$', page, re.MULTILINE)
    released = {name: find_model(name) for name in list_models(pretrained=True)}
    assert set(rows) <= set(released)
    assert {released[name].weights for name in rows} == {m.weights for m in released.values()}
    for model in (find_model(name) for name in rows):
        assert f'| {model.family} | [{model.license["Name"]}]({model.license["URL"]})' in page


def test_every_name_on_the_page_is_a_released_model():
    named = re.findall(r"(?:Predictor|get_model)\('(\w+_\w+)'", zoo.PAGE.read_text())
    named += re.findall(r'mmeffvit (?:predict|test|export) (\w+_\w+)', zoo.PAGE.read_text())
    assert len(named) > 5
    assert set(named) <= set(list_models(pretrained=True))


def test_the_time_of_a_recommendation_is_the_measured_median():
    module = tables.load('which_model')
    measured = tables.seconds('alternatives')['detection']['seconds']['rtmdet_swiftformer_xs']
    (row,) = (row for row in rows_of(module.PAGE) if row[0] == 'your own objects, as boxes')
    assert float(row[4]) == pytest.approx(1e3 * statistics.median(measured), rel=0.005)


def test_a_row_of_the_backbones_is_one_variant_with_its_own_accuracy_and_time():
    families = tables.load('families')
    times = families.cpu_times()
    rows = {re.sub(r'\[(.*)\]\(.*', r'\1', row[0]): row for row in rows_of(families.PAGE)}
    for name in ('swiftformer_l1', 'shvit_s4', 'mobilevitv2_100', 'efficientformerv2_s2'):
        model = find_model(name)
        row = rows[model.architecture[0]]
        assert row[1] == f'{model.parameters / 1e6:.1f} M'
        assert row[2] == f'{model.published()[1]["Top 1 Accuracy"]:.1f}'
        assert row[5] == times[name]
    assert rows['PVTv2-B0'][5] == ''  # not measured


def test_the_plots_are_drawn_from_stored_results(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, 'GALLERY', tmp_path)
    plots.draw_phones()
    plots.draw_formats()
    plots.draw_steps()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {'phones.png', 'formats.png', 'steps.png'}
    assert all((plots.DOCS / 'gallery' / name).is_file() for name in names)
