"""Every family has key tables and attention that can be read, and is found in its folder."""

import shutil

import pytest
import torch

from mmeffvit.analysis.attention import Canvas, record_attention
from mmeffvit.models import families
from mmeffvit.models.checkpoints.rename import recognize
from tests.conftest import ROOT, run_python, succeeded

PACKAGE = ROOT / 'mmeffvit'


@pytest.mark.parametrize('cls', families().values())
def test_a_family_has_variants_a_key_table_and_attention_that_can_be_read(cls):
    for arch in cls.variants:
        with torch.device('meta'):
            assert recognize(cls(arch).state_dict(), cls.layouts) is not None, arch
    backbone = cls(next(iter(cls.variants))).eval()
    with record_attention(backbone, Canvas(64, 96, (40, 20))) as readings, torch.no_grad():
        backbone(torch.zeros(1, 3, 64, 96))
    assert all(reading.title and reading.maps for reading in readings.values())


FIFTH = """
from dataclasses import dataclass
from torch import nn
from mmeffvit.models.backbone import Backbone, Stage
from mmeffvit.models.checkpoints.rename import Layout
from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.choice import resolve_row
from mmeffvit.models.layers.reading import Reading
from mmeffvit.registries import register_backbone

@dataclass(frozen=True)
class Arch:
    channels: tuple[int, ...]

VARIANTS = {'s': Arch((8, 16)), 'm': Arch((16, 24))}

class Mean(Attention):
    def forward(self, x):
        return x + x.mean(dim=(2, 3), keepdim=True)

    def read_attention(self, inputs, locate):
        weights = inputs[0][0, 0].softmax(dim=-1)
        return Reading('mean', 'means', {'': weights}, {'weights': weights})

@register_backbone
class Fifth(Backbone):
    variants = VARIANTS
    layouts = (  # its tables
        Layout('theirs', 'patch', ((r'^patch', 'stem'), (r'^rest', 'stages')),
               (('^scores', 'head.classifier.fc'),)),
        Layout('mmeffvit', '^stages.*downsample', ()),
    )

    def __init__(self, arch='s', out_indices=(0, 1), **options):
        channels = resolve_row(arch, VARIANTS).channels
        before = (channels[0], *channels)
        super().__init__(
            nn.Conv2d(3, channels[0], 3, 2, 1),
            lambda i: Stage(nn.Conv2d(before[i], before[i + 1], 3, 2, 1), [Mean()]),
            channels=channels, strides=(4, 8), out_indices=out_indices, **options,
        )
"""


USE = """
import torch
from mmeffvit.models.checkpoints import open_checkpoint
from mmeffvit.config.backbones import build_backbone, parse_backbone
from mmeffvit.analysis.attention import attention_layers
from mmeffvit.zoo.convert import convert
from mmeffvit.zoo.identify import describe

model = build_backbone(parse_backbone('Fifth:m'))
print(list(attention_layers(model)))
state = model.state_dict().items()
theirs = {k.replace('stem', 'patch').replace('stages', 'rest'): value for k, value in state}
torch.save(theirs, 'theirs.pth')
print(convert('theirs.pth'))
theirs |= {'scores.weight': torch.zeros(5, 24), 'scores.bias': torch.zeros(5)}
torch.save(theirs, 'classifier.pth')
whole = open_checkpoint('classifier.pth')
print(whole.release.layout, describe(whole.weights))
print(model.load_pretrained(whole))
"""


@pytest.mark.slow
def test_the_folder_of_a_fifth_family_is_found_without_an_edit_elsewhere(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / 'mmeffvit')
    folder = tmp_path / 'mmeffvit' / 'models' / 'fifth'
    folder.mkdir()
    (folder / 'backbone.py').write_text(FIFTH)
    printed = succeeded(run_python('-c', USE, cwd=tmp_path, env={'PYTHONPATH': str(tmp_path)}))
    assert "['stages.0.blocks.0', 'stages.1.blocks.0']" in printed
    assert "is Fifth 'm' in the theirs layout" in printed
    # a whole release is recognized by the table of the family, its variant by the family's own
    assert 'theirs classifier_fifth_m with 5 classes' in printed
    assert '(theirs layout): 6 tensors loaded, 2 ignored, 0 missing' in printed
