"""Any released file as a clean file of our own layout."""

import pytest
import torch

from mmeffvit.models import MobileViTv2, families
from mmeffvit.models.checkpoints import CheckpointError, open_checkpoint, rename
from mmeffvit.zoo.convert import convert, write
from tests.conftest import run_tool_here, succeeded
from tests.models.checkpoints.spelling import official_keys
from tests.models.parity import randomized
from tests.models.test_parity import FAMILIES, FIRST
from tests.released import cvnets, files
from tests.variants import sampled

CONVERTER = 'model_converters/convert_weights.py'


@pytest.fixture(scope='module')
def states(timm):
    """Weights of timm's models, by family."""
    torch.manual_seed(0)
    return {
        name: randomized(timm.create_model(FAMILIES[name].timm_name(arch))).state_dict()
        for name, arch in FIRST
    }


@pytest.mark.parametrize('layout', sampled(['official', 'timm'], ['official']))
@pytest.mark.parametrize(('name', 'arch'), FIRST)
def test_family_variant_and_layout_are_found_and_the_file_loads(
    states, tmp_path, name, arch, layout
):
    state = states[name]
    if layout == 'official':
        keys = official_keys(FAMILIES[name].timm, state)
        state = {keys[key]: value for key, value in state.items()}
    torch.save({'model': state}, tmp_path / 'in.pth')
    conversion = convert(tmp_path / 'in.pth')
    layout = 'official' if name == 'DeiT' else layout  # timm has kept the official keys
    assert f'is {name} {arch!r} in the {layout} layout' in str(conversion)
    assert f'ignored: {len(state) - len(conversion.tensors)} tensors: ' in str(conversion)
    assert (conversion.family, conversion.arch, conversion.report.layout) == (name, arch, layout)
    write(conversion, tmp_path / 'out.safetensors')
    again = convert(tmp_path / 'out.safetensors')
    assert (again.family, again.arch) == (name, arch)
    assert (again.report.layout, again.report.dropped) == ('mmeffvit', ())
    assert again.tensors.keys() == conversion.tensors.keys()
    assert all(torch.equal(value, again.tensors[key]) for key, value in conversion.tensors.items())
    # nothing is lost: every value is one of the source, in its place
    table = next(each.table for each in families()[name].layouts if each.name == layout)
    places = {new: old for old, new in rename(state, table)[0].items()}
    for key, value in again.tensors.items():
        assert torch.equal(value.flatten(), state[places[key]].flatten())
    assert len(again.tensors) + len(conversion.report.dropped) == len(state)


@pytest.mark.parametrize('suffix', sampled(['.safetensors', '.pth'], ['.safetensors']))
def test_a_full_model_of_cvnets_and_its_encoder_are_written_with_our_keys(tmp_path, suffix):
    network = files.with_random_weights(cvnets.RELEASES['ssdlite_mobilevitv2_050'].network())
    source = files.save_cvnets(network, tmp_path / 'ssd.pt')
    out = tmp_path / f'out{suffix}'
    for options in (['--dry-run'], []):
        assert not out.exists()
        printed = succeeded(run_tool_here(CONVERTER, source, out, *options))
    assert 'is ssdlite_mobilevitv2_050 in the cvnets layout' in printed
    assert '352 tensors with' in printed
    assert '12 of them reordered\n  ignored: 0 tensors' in printed
    ours = open_checkpoint(out).weights
    assert all(torch.equal(ours[k], v) for k, v in open_checkpoint(source).weights.items())
    assert len(ours) == 352
    state = network.state_dict()
    encoder = convert(source, backbone_only=True)
    assert (encoder.arch, encoder.report.layout) == ('050', 'cvnets')
    assert set(encoder.report.dropped) == {key for key in state if not key.startswith('encoder.')}
    backbone = MobileViTv2('050')
    backbone.load_pretrained(source)
    weight = backbone.stages[4].blocks[0].project.conv.weight
    assert torch.equal(weight, state['encoder.layer_5.1.conv_proj.block.conv.weight'])
    state.pop('encoder.conv_1.block.conv.weight')
    torch.save(state, tmp_path / 'short.pt')
    with pytest.raises(CheckpointError, match=r'is ssdlite_mobilevitv2_050 .*missing in the file'):
        convert(tmp_path / 'short.pt')


def test_a_file_that_fits_no_variant_is_rejected_with_the_nearest(states, tmp_path):
    state = {key: value for key, value in states['SHViT'].items() if 'blocks.4' not in key}
    torch.save(state, tmp_path / 'short.pth')
    with pytest.raises(CheckpointError, match=r"nearest is SHViT 's1', with 27 keys .*blocks\.4"):
        convert(tmp_path / 'short.pth')
    torch.save({'layer1.weight': torch.zeros(1)}, tmp_path / 'other.pth')
    with pytest.raises(CheckpointError, match=r'no known family .*SwiftFormer.*layer1\.weight'):
        convert(tmp_path / 'other.pth')
