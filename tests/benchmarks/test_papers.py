"""The papers' full models and curves: real configs, published ratios, a table and a plot."""

import torch

from benchmarks import papers, scaling
from benchmarks.machine import ROOT

SECONDS = {'fast': [0.1] * 3, 'slow': [0.3] * 3}


def test_every_model_of_the_tables_has_a_config_and_the_faster_one_is_first():
    for pair in papers.PAIRS:
        for name in (pair.fast, pair.slow):
            assert (ROOT / 'configs' / f'{name}.py').is_file()
        assert pair.published[0] > pair.published[1]


def test_a_network_is_run_on_a_batch_without_post_processing():
    images = torch.randn(2, 3, 64, 96)
    with torch.no_grad():
        scores, boxes = papers.network('ssdlite_mobilevitv2_050', images)()
    assert [level.shape[0] for level in (*scores, *boxes)] == [2] * 12
    assert scores[0].shape[2:] == (4, 6)


def test_a_ratio_is_beside_the_published_one():
    pair = papers.PAIRS[0]
    row = dict(size=(800, 1333), batch=2, seconds=SECONDS)
    text = '\n'.join(papers.render({str(pair): row}))
    assert '3.00 (3.00 to 3.00) | 1.24 (31.4 : 25.4 images/s; arXiv:2401.16456, table 9)' in text
    assert '| 20.0 : 6.67 |' in text


def test_curves_are_drawn(tmp_path):
    times = {str(variant): [0.1 * (1 + i)] for i, variant in enumerate(scaling.VARIANTS)}
    rows = {side: dict(side=side, seconds=times) for side in (224, 512)}
    rows['memory'] = dict(batch=1, peak_bytes=dict.fromkeys(times, 2**21))
    scaling.draw(rows, tmp_path)
    assert (tmp_path / scaling.PLOT).stat().st_size > 10_000
    text = '\n'.join(scaling.render(rows))
    assert '| 224 x 224 | 100 (100) | 200 (200) |' in text
    assert '2.00 (2.00 to 2.00)' in text
    assert '| 1 | 2.0 | 2.0 | 2.0 | 2.0 | 1.00 |' in text
