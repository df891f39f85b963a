"""The page on adding a backbone: its code fulfills the contract, its config trains a step."""

import sys

import pytest
from mmengine.registry import MODELS as ROOT_MODELS

from mmeffvit.registry import MODELS
from tests.docs.pages import TUTORIALS, Workplace, code_blocks, lines_of_code, page_commands
from tests.models import test_contract as contract

PAGE = TUTORIALS / 'add_a_backbone.md'
NAME = 'PlainNet'


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """The package and the config of the page; the backbone is unregistered afterwards."""
    place = Workplace(tmp_path, monkeypatch)
    package, config = code_blocks(PAGE, 'python')
    (tmp_path / 'my_package').mkdir()
    (tmp_path / 'my_package' / 'plainnet.py').write_text(package)
    (tmp_path / 'mine' / 'plainnet.py').write_text(config)
    assert lines_of_code(config) < 20
    monkeypatch.syspath_prepend(tmp_path)  # the PYTHONPATH of the page
    yield place
    for registry in (MODELS, ROOT_MODELS):
        registry.module_dict.pop(NAME, None)
    for module in ('my_package.plainnet', 'my_package'):
        sys.modules.pop(module, None)


@pytest.mark.slow
def test_the_backbone_of_the_page_keeps_the_contract_and_trains(workplace, capsys):
    check_config, complexity = page_commands(PAGE)
    workplace.run(check_config)  # runs a training step; imports the package by custom_imports
    assert 'no errors' in capsys.readouterr().out
    workplace.run(complexity)
    assert 'backbone' in capsys.readouterr().out
    tiny = dict(channels=(8, 8, 16, 16), depths=(1, 1, 1, 1))
    for arch in ('s', 'm', tiny):
        contract.test_maps_match_declared_channels_and_strides(NAME, arch)
    contract.test_maps_of_real_images_match_too(NAME, 's', (97, 61))
    for out_indices in ((-3, -1), (0, 1, 2), (-1,)):
        contract.test_out_indices_select_maps_and_build_nothing_else(NAME, 's', out_indices)
    for frozen_stages in (-1, 0, 2):
        contract.test_frozen_stages_get_no_gradient_and_keep_their_statistics(
            NAME, 's', frozen_stages
        )
    with pytest.raises(ValueError, match="'xl'; choose one of 's', 'm'"):
        contract.build(NAME, 'xl')
