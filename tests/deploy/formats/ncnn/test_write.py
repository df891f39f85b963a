"""Files for ncnn, run on this CPU."""

import json
import re

import pytest
import torch
from torch import Tensor, nn

from mmeffvit.deploy.export import ToolOptions
from mmeffvit.deploy.formats.ncnn.write import to_ncnn
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.table import open_model
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.profile.candidates import check_exported
from mmeffvit.deploy.write import write
from mmeffvit.errors import UserError
from tests.deploy import models, tiny
from tests.variants import sampled

pytest.importorskip('pnnx')
pytest.importorskip('ncnn')

SIZES = ExportOptions((64, 96), 1)
FAMILIES = {
    'MobileViTv2': dict(arch='050', out_indices=(2,)),
    'SHViT': dict(arch='s1', out_indices=(0,)),
    'EfficientFormerV2': dict(arch='s0', out_indices=(3,)),
}


@pytest.mark.parametrize('family', sampled(list(FAMILIES), ('MobileViTv2', 'SHViT')))
def test_attention_of_every_family_agrees(family, tmp_path):
    graph = tiny.graph(dict(type=f'mmeffvit.{family}', **FAMILIES[family]))
    said = str(write(graph, tmp_path / 'model.param', SIZES))
    errors = [float(value) for value in re.findall(r'relative error (\S+)', said)]
    assert max(errors) < 1e-4, said


@pytest.mark.parametrize(
    'name',
    sampled(
        ['pspnet_mobilevitv2_050_ade20k', 'deeplabv3_mobilevitv2_050_ade20k',
         'segformer_swiftformer_xs_ade20k'],
        ['deeplabv3_mobilevitv2_050_ade20k'],
    ),
)  # fmt: skip
def test_label_maps_of_a_segmentor_agree(name, tmp_path):
    said = str(write(make_graph(models.tiny(name)), tmp_path / 'model.param', SIZES))
    assert re.search(r'fraction of differing pixels 0 ', said), said


def test_three_files_with_named_blobs_are_written(tmp_path):
    graph = tiny.graph(tiny.FIRST_STAGE)
    out = tmp_path / 'model.ncnn.param'
    sizes = {}
    for half in (False, True):
        said = str(write(graph, out, SIZES, dict(note='kept'), half=half))
        sizes[half] = out.with_suffix('.bin').stat().st_size
    assert 'weights and metadata in model.ncnn.bin and model.ncnn.json' in said
    assert sizes[True] < 0.6 * sizes[False]
    with pytest.raises(UserError, match=r'ncnn\.bin would be overwritten with .*ncnn\.xml'):
        write(graph, out.with_suffix('.xml'), SIZES)
    metadata = json.loads((tmp_path / 'model.ncnn.json').read_text())
    assert metadata['note'] == 'kept'
    assert metadata['input_layout'] == 'CHW float32'
    session = open_model(out)
    assert session.shape == (1, 3, 64, 96)
    assert session.run(tiny.images().numpy())['stride_4'].shape == (1, 16, 16, 24)
    with pytest.raises(UserError, match=r'takes images of \(1, 3, 64, 96\), not \(1, 3, 96, 64\)'):
        session.run(tiny.images().numpy().transpose(0, 1, 3, 2))
    assert check_exported(out, ToolOptions())[0].shape == (1, 3, 64, 96)  # without --shape
    old = re.sub(' 0=96 1=64 2=3', '', out.read_text())  # as pnnx writes it
    out.write_text(old)
    assert open_model(out).shape == (1, 3, None, None)
    with pytest.raises(UserError, match=r'takes images of \(1, 3, 64, 96\), not \(2, 3'):
        open_model(out).run(tiny.images(2).numpy())
    for content in ('[]', '{"resize": {}}'):
        out.with_suffix('.json').write_text(content)
        with pytest.raises(UserError, match=r'param: its metadata must be strings by name'):
            open_model(out)
    out.with_suffix('.bin').write_bytes(b'')
    out.with_suffix('.json').write_text('{}')
    with pytest.raises(UserError, match='ncnn cannot read'):
        open_model(out)
    for suffix in ('.json', '.bin'):
        out.with_suffix(suffix).unlink()
        with pytest.raises(
            UserError, match=rf'param needs model\.ncnn\{suffix} of the same export'
        ):
            open_model(out)


class Inner(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.digamma(x)


class Outer(nn.Module):
    output_names = ('out',)

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        return (self.inner(images) + 1,)


def test_an_unknown_operator_is_named_with_its_module(tmp_path):
    with pytest.raises(UserError, match=r'ncnn has no layer for aten::digamma in inner$'):
        to_ncnn(tiny.export(Outer()), tmp_path / 'model.param', {})
    assert list(tmp_path.iterdir()) == []
