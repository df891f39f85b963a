"""Position tables of images of any aspect ratio keep their grid in every kind of file."""

import copy
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from mmengine.runner.checkpoint import (
    get_state_dict,
    load_checkpoint,
    load_state_dict,
    weights_to_cpu,
)
from torch import nn

from mmeffvit.models import Backbone
from mmeffvit.models.checkpoints import CheckpointError, load_into, open_checkpoint
from mmeffvit.models.layers.grid import Gridded
from mmeffvit.train.engine.train import check_start
from mmeffvit.zoo.convert import convert_into, write
from mmeffvit.zoo.hub import save_pretrained
from tests.models.test_contract import TINY, build

WIDE = (576, 1024)  # grids of 36 x 64 and 18 x 32 cells, as many as of 48 x 48 and 24 x 24
FAMILIES = ('EfficientFormerV2', 'DeiT')


def initial(family: str, resolution: int | tuple[int, int] = WIDE) -> Backbone:
    return build(family, TINY[family], resolution=resolution)


def ramps(family: str, resolution: int | tuple[int, int] = WIDE) -> Backbone:
    """A backbone whose tables are ramps, which any scrambling changes much."""
    backbone = initial(family, resolution)
    for module in tables(backbone):
        tensor = getattr(module, module.gridded)
        rows, columns = (torch.linspace(0, 1, side) for side in module.grid)
        ramp = (rows[:, None] + columns).flatten()
        with torch.no_grad():
            if family == 'DeiT':
                tensor[:] = torch.cat((torch.zeros(1), ramp))[:, None]  # first the class token
            else:
                tensor[:] = ramp
    return backbone


def tables(backbone: nn.Module) -> list[Gridded]:
    return [module for module in backbone.modules() if isinstance(module, Gridded)]


def assert_ramps(backbone: nn.Module, family: str, resolution: int | tuple[int, int]) -> None:
    for module, other in zip(tables(backbone), tables(ramps(family, resolution)), strict=True):
        # bicubic resizing moves values at the borders; a scrambled ramp differs by up to 1
        torch.testing.assert_close(
            getattr(module, module.gridded), getattr(other, other.gridded), rtol=0, atol=0.03
        )


class Model(nn.Module):
    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone, self.neck = backbone, nn.Linear(1, 1)


def save_torch(backbone: Backbone, path: Path) -> Path:
    torch.save(backbone.state_dict(), path.with_suffix('.pth'))
    return path.with_suffix('.pth')


def save_as_mmengine_does(backbone: Backbone, path: Path) -> Path:
    state = weights_to_cpu(get_state_dict(Model(copy.deepcopy(backbone))))
    torch.save(dict(meta={}, state_dict=state), path.with_suffix('.pth'))
    return path.with_suffix('.pth')


def save_converted(backbone: Backbone, path: Path) -> Path:
    family = type(backbone).__name__
    source = save_torch(backbone, path.with_name('source'))
    into = initial(family)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('mmeffvit.zoo.convert.build_backbone', lambda _: into)
        write(convert_into(source, family), path.with_suffix('.safetensors'))
    return path.with_suffix('.safetensors')


def save_folder(backbone: Backbone, path: Path) -> Path:
    backbone.recipe = dict(
        name={'DeiT': 'deit_t'}.get(type(backbone).__name__, 'efficientformerv2_s0')
    )
    return save_pretrained(backbone, path) / 'model.safetensors'


@pytest.mark.parametrize('resolution', [(288, 512), WIDE])
@pytest.mark.parametrize('save', [save_torch, save_as_mmengine_does, save_converted, save_folder])
@pytest.mark.parametrize('family', FAMILIES)
def test_tables_of_wide_images_are_resized_from_their_own_grid(family, save, resolution, tmp_path):
    path = save(ramps(family), tmp_path / 'wide')
    other = initial(family, resolution)
    other.load_pretrained(path)
    assert_ramps(other, family, resolution)


@pytest.mark.parametrize('family', FAMILIES)
def test_the_prefix_of_addresses_keeps_the_grids_for_mmengine(family, tmp_path):
    path = save_torch(ramps(family), tmp_path / 'wide')
    other = initial(family, (288, 512))
    load_checkpoint(other, f'mmeffvit://{path}', strict=True)
    assert_ramps(other, family, (288, 512))


@pytest.mark.parametrize('family', FAMILIES)
def test_a_plain_state_dict_is_resized_with_a_warning(family):
    state, other = ramps(family).state_dict(), ramps(family, 768)
    with pytest.warns(UserWarning, match=r'resized from \(\d+, \d+\) to \(\d+, \d+\)'):
        other.load_state_dict(state)
    assert_ramps(other, family, 768)


@pytest.mark.parametrize('family', FAMILIES)
def test_keys_and_shapes_are_the_same_and_files_without_a_grid_load_strictly(family, tmp_path):
    source = ramps(family)
    old = OrderedDict(source.state_dict())  # as before grids were saved
    assert (
        old.keys() == dict(source.named_parameters()).keys() | dict(source.named_buffers()).keys()
    )
    for load in (lambda b: b.load_state_dict(old), lambda b: b.load_pretrained(tmp_path / 'old')):
        torch.save(old, tmp_path / 'old')
        other = initial(family)
        load(other)
        assert all(torch.equal(v, old[key]) for key, v in other.state_dict().items())
    with pytest.raises(CheckpointError, match='of another shape'):
        build(family, TINY[family]).load_pretrained(tmp_path / 'old')


@pytest.mark.parametrize('grid', [(1, 2), (0, 5), 'ab', (2**70, 1), [True, 4], None, {}])
@pytest.mark.parametrize('family', FAMILIES)
def test_a_grid_that_cannot_be_is_ignored(family, grid, tmp_path):
    state = ramps(family).state_dict()
    for values in state._metadata.values():
        values['grids'] = {'table': grid, 'positions': grid}
    torch.save(state, tmp_path / 'odd.pth')
    other = initial(family)
    other.load_pretrained(tmp_path / 'odd.pth')
    assert_ramps(other, family, WIDE)


@pytest.mark.parametrize('family', FAMILIES)
def test_training_starts_from_another_grid_and_resumes_only_its_own(family, tmp_path, log):
    model = Model(ramps(family, 768))
    start = open_checkpoint(save_as_mmengine_does(ramps(family), tmp_path / 'wide'))
    runner = type('FakeRunner', (), dict(model=model))
    found = check_start(runner, start, type('C', (), dict(resume=False)))
    load_state_dict(model, found.content['state_dict'])  # as mmengine does: not resized again
    assert_ramps(model.backbone, family, 768)
    assert 'resized to the resolution' in log.text
    with pytest.raises(CheckpointError, match='are of another resolution'):
        load_into(model, start, resume=True)
    load_into(Model(ramps(family)), start, resume=True)
