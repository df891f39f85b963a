"""The configs of the page, of mmdet and mmseg with our backbones, have no errors."""

import re

import pytest

from tests.conftest import ROOT
from tests.docs.pages import Workplace, code_blocks, page_commands
from tests.variants import sampled

PAGE = ROOT / 'docs' / 'coming-from-openmmlab.md'
CONFIGS = code_blocks(PAGE, 'python')


@pytest.mark.slow
@pytest.mark.parametrize(
    'config',
    sampled(CONFIGS, CONFIGS[::2]),  # one of mmdet and one of mmseg
    ids=[re.search(r"'(\w+::\w+)", config)[1] for config in CONFIGS],
)
def test_a_config_of_the_page_has_no_errors(config, tmp_path, monkeypatch, capsys):
    workplace = Workplace(tmp_path, monkeypatch)
    (tmp_path / 'mine' / 'plugged.py').write_text(config)
    (command,) = (c for c in page_commands(PAGE) if c[0] == 'check')
    workplace.run(command)
    assert 'no errors' in capsys.readouterr().out


def test_the_channels_on_the_page_of_heads_are_those_of_the_backbones():
    import mmeffvit.models as backbones

    page = (ROOT / 'docs' / 'heads.md').read_text()
    rows = re.findall(r'^\| (\w+) (`.*`) \| ([\d, ]+) \| ([\d, ]+) \|$', page, re.M)
    assert len(rows) == 4  # DeiT's maps are all the same
    for family, names, channels, strides in rows:
        options = dict(out_indices=range(len(strides.split(','))))
        for arch, numbers in zip(re.findall(r'\w+', names), channels.split(', '), strict=True):
            built = getattr(backbones, family)(arch, **options)
            assert list(built.channels) == [int(number) for number in numbers.split()]
            assert list(built.strides) == [int(number) for number in strides.split(',')]
