"""The page on datasets: its generated label maps are read by a config."""

from tests.conftest import ROOT, output_of
from tests.docs.pages import code_blocks


def test_the_label_maps_of_the_page_are_those_of_ade20k(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / 'docs' / 'data.md'
    (generate,) = (code for code in code_blocks(page, 'python') if 'generate_ade20k' in code)
    exec(generate, {})
    config = ROOT / 'configs' / 'segformer_swiftformer_xs_ade20k.py'
    printed = output_of(
        'check', config, '--no-model', '--all', '--cfg-options', 'data_root=data/shapes_ade20k/'
    )
    assert 'nothing is broken' in printed
    assert 'train: ADE20KDataset' in printed
    assert '20 images opened' in printed
