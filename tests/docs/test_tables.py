"""Generated tables agree with the metafile and the measurements, and say what they should."""

import re
import statistics
from dataclasses import replace

import pytest

from docs.hooks import papers, tables, zoo
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
    assert cells[1:4] == [str(values['mIoU']), zoo.short(source), '12.5 mIoU']


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


def test_every_released_model_has_a_row_with_its_address_and_its_family_a_license():
    page = zoo.PAGE.read_text()
    rows = re.findall(r'^\| \[?(\w+)\]?.*\| \[[\w ]+\]\(http.*\) \|$', page, re.MULTILINE)
    assert sorted(rows) == list_models(pretrained=True)
    for model in (find_model(name) for name in rows):
        assert f'| {model.family} | [{model.license["Name"]}]({model.license["URL"]})' in page


def test_every_name_on_the_page_is_a_released_model():
    named = re.findall(r"(?:Predictor|get_model)\('(\w+_\w+)'", zoo.PAGE.read_text())
    named += re.findall(r'mmeffvit (?:predict|test|export) (\w+_\w+)', zoo.PAGE.read_text())
    assert len(named) > 5
    assert set(named) <= set(list_models(pretrained=True))


@pytest.mark.parametrize('task', ['detection', 'segmentation'])
def test_models_are_ranked_by_accuracy_with_the_median_of_their_times(task):
    module = tables.load('which_model')
    measured = tables.seconds('alternatives')[task]
    rows = [line.strip('| ').split(' | ') for line in module.ranked(task, measured).splitlines()]
    rows = {re.sub(r'\W*(\w[^]*]*\w).*', r'\1', row[0]): row for row in rows[2:]}
    accuracies = [float(row[2]) for row in rows.values() if row[2]]
    assert accuracies == sorted(accuracies, reverse=True)
    for entry in module.ENTRIES[task]:
        known = measured['accuracy'][entry.name]
        if known and known[1] != module.METRICS[task][1]:
            assert entry.title not in rows  # its accuracy does not compare
            continue
        row = rows[entry.name if entry.is_ours else entry.title]
        median = 1e3 * statistics.median(measured['seconds'][entry.name])
        assert float(row[3]) == pytest.approx(median, rel=0.005)
        assert row[2] == (f'{known[0]:.1f}' if known else '')


def first_page() -> dict[str, list[str]]:
    """The rows of the table of backbones by the name of their variant."""
    rows = {
        re.sub(r'\[(.*)\]\(.*', r'\1', row[0]): row for row in rows_of(tables.load('families').PAGE)
    }
    return {name: row for name, row in rows.items() if len(row) == 9}


def test_the_first_page_counts_every_released_file_of_a_family():
    for family, variant in (('SwiftFormer', 'SwiftFormer-XS'), ('MobileViTv2', 'MobileViTv2-0.5')):
        files = {m.weights for m in read_models().values() if m.family == family and m.weights}
        assert sum(map(int, re.findall(r'(\d+) [A-Z]', first_page()[variant][7]))) == len(files)


def test_a_row_of_the_first_page_is_one_variant_with_its_own_accuracy_and_time():
    times = tables.load('families').cpu_times()
    for name in ('swiftformer_l1', 'shvit_s4', 'mobilevitv2_100', 'efficientformerv2_s2'):
        model = find_model(name)
        row = first_page()[model.architecture[0]]
        assert row[1] == f'{model.parameters / 1e6:.1f} M'
        assert row[2] == f'{model.published()[1]["Top 1 Accuracy"]:.1f}'
        assert row[5] == times[name]
    assert first_page()['PVTv2-B0'][5] == ''  # not measured
