"""Any released file as a clean file of our own layout."""

import pytest
import torch

from mmeffvit.models import MobileViTv2
from mmeffvit.models.checkpoints import CheckpointError, open_checkpoint
from mmeffvit.zoo.convert import convert, write
from tests.conftest import run_tool_here
from tests.models.checkpoints.spelling import official_keys
from tests.models.parity import randomized
from tests.variants import sampled

CONVERTER = 'model_converters/convert_weights.py'
CASES = [
    ('swiftformer', 'xs', 'SwiftFormer'),
    ('shvit', 's1', 'SHViT'),
    ('mobilevitv2', '050', 'MobileViTv2'),
    ('efficientformerv2', 's0', 'EfficientFormerV2'),
]


@pytest.fixture(scope='module')
def states(timm):
    """Weights of timm's models, by family."""
    torch.manual_seed(0)
    return {
        family: randomized(timm.create_model(f'{family}_{arch}')).state_dict()
        for family, arch, _ in CASES
    }


@pytest.mark.parametrize('layout', sampled(['official', 'timm'], ['official']))
@pytest.mark.parametrize(('family', 'arch', 'name'), CASES)
def test_family_variant_and_layout_are_found_and_the_file_loads(
    states, tmp_path, family, arch, name, layout
):
    state = states[family]
    keys = official_keys(family, state) if layout == 'official' else {key: key for key in state}
    torch.save({'model': {keys[key]: value for key, value in state.items()}}, tmp_path / 'in.pth')
    conversion = convert(tmp_path / 'in.pth')
    assert (conversion.family, conversion.arch, conversion.report.layout) == (name, arch, layout)
    write(conversion, tmp_path / 'out.safetensors')
    again = convert(tmp_path / 'out.safetensors')
    assert (again.family, again.arch) == (name, arch)
    assert (again.report.layout, again.report.dropped) == ('mmeffvit', ())
    assert again.tensors.keys() == conversion.tensors.keys()
    assert all(torch.equal(value, again.tensors[key]) for key, value in conversion.tensors.items())
    # nothing is lost: every value is one of the source, in its place
    for old, new in conversion.report.renamed.items():
        source = {keys[key]: value for key, value in state.items()}[old]
        assert torch.equal(again.tensors[new].flatten(), source.flatten())
    assert len(conversion.report.renamed) + len(conversion.report.dropped) == len(state)


def cvnets_detector(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    keys = official_keys('mobilevitv2', state)
    encoder = {f'encoder.{keys[key]}': value for key, value in state.items() if 'head' not in key}
    return {**encoder, 'ssd_heads.0.proj_layer.block.conv.weight': torch.zeros(2, 2)}


def test_the_encoder_of_a_detector_of_cvnets_loads(states, tmp_path, log):
    torch.save(cvnets_detector(states['mobilevitv2']), tmp_path / 'ssd.pt')
    backbone = MobileViTv2('050')
    backbone.load_pretrained(tmp_path / 'ssd.pt')
    weight = states['mobilevitv2']['stages.4.1.conv_proj.conv.weight']
    assert torch.equal(backbone.stages[4].blocks[0].project.conv.weight, weight)
    assert '1 ignored, 0 missing' in log.text
    conversion = convert(tmp_path / 'ssd.pt', backbone_only=True)
    assert conversion.report.dropped == ('ssd_heads.0.proj_layer.block.conv.weight',)
    assert (conversion.arch, conversion.report.layout) == ('050', 'cvnets')


@pytest.mark.parametrize('suffix', sampled(['.safetensors', '.pth'], ['.safetensors']))
def test_a_full_model_of_cvnets_is_written_with_our_keys(tmp_path, suffix):
    from tests.released import cvnets, files

    release = next(r for r in cvnets.RELEASES if r.config == 'ssdlite_mobilevitv2_050')
    network = files.with_random_weights(release.network())
    source = files.save_cvnets(network, tmp_path / 'ssd.pt')
    out = tmp_path / f'out{suffix}'
    done = run_tool_here(CONVERTER, source, out)
    assert done.returncode == 0, done.stdout
    assert 'is ssdlite_mobilevitv2_050 in the cvnets layout' in done.stdout
    assert '352 tensors with' in done.stdout
    assert '12 of them reordered\n  ignored: 0 tensors' in done.stdout
    ours = open_checkpoint(out).weights
    assert all(torch.equal(ours[k], v) for k, v in open_checkpoint(source).weights.items())
    assert len(ours) == 352
    state = network.state_dict()
    state.pop('encoder.conv_1.block.conv.weight')
    torch.save(state, tmp_path / 'short.pt')
    with pytest.raises(CheckpointError, match=r'is ssdlite_mobilevitv2_050 .*missing in the file'):
        convert(tmp_path / 'short.pt')


def test_a_file_that_fits_no_variant_is_rejected_with_the_nearest(states, tmp_path):
    state = {key: value for key, value in states['shvit'].items() if 'blocks.4' not in key}
    torch.save(state, tmp_path / 'short.pth')
    with pytest.raises(CheckpointError, match=r"nearest is SHViT 's1', with 27 keys .*blocks\.4"):
        convert(tmp_path / 'short.pth')
    torch.save({'layer1.weight': torch.zeros(1)}, tmp_path / 'other.pth')
    with pytest.raises(CheckpointError, match=r'no known family .*SwiftFormer.*layer1\.weight'):
        convert(tmp_path / 'other.pth')


@pytest.mark.slow
def test_the_tool_reports_and_writes_only_without_dry_run(states, tmp_path):
    torch.save(states['shvit'], tmp_path / 'in.pth')
    out = tmp_path / 'out.safetensors'
    done = run_tool_here(CONVERTER, tmp_path / 'in.pth', out, '--dry-run')
    assert done.returncode == 0, done.stdout
    assert "is SHViT 's1' in the timm layout" in done.stdout
    assert 'ignored: 7 tensors: head.bn, head.l' in done.stdout
    assert not out.exists()
    done = run_tool_here(CONVERTER, tmp_path / 'in.pth', out)
    assert done.returncode == 0, done.stdout
    assert out.is_file()
