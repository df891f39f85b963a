"""Every family has a folder with its backbone, its attention and its key table."""

import ast
import shutil
import sys
from pathlib import Path

import pytest
import torch

from mmeffvit.analysis.attention import Canvas, record_attention
from mmeffvit.models import Backbone, SHViT, families
from mmeffvit.models.checkpoints.rename import recognize
from mmeffvit.models.shvit.attention import SingleHeadSelfAttention
from tests.conftest import ROOT, run_python
from tests.test_layering import imported_by

PACKAGE = ROOT / 'mmeffvit'
PAPERS = PACKAGE / 'models'
BACKBONES = sorted(PAPERS.glob('*/backbone.py'))
MIXERS = PAPERS / 'mobile_attention' / 'mixers.py'  # chosen by name in backbones
PARTS = sorted(
    path for name in ('keys', 'attention', 'ablations') for path in PAPERS.glob(f'*/{name}.py')
)


def file_of(cls: type[Backbone]) -> Path:
    return Path(sys.modules[cls.__module__].__file__)


def test_every_folder_with_a_backbone_registers_a_family():
    assert {file_of(cls) for cls in families().values()} == set(BACKBONES)


def assert_complete(cls: type[Backbone]) -> None:
    """A family has what the converter, the attention reader and the contract need."""
    for arch in cls.variants:
        with torch.device('meta'):
            backbone = cls(arch)
        layout = recognize(backbone.state_dict(), cls.layouts)
        assert layout is not None, f'no layout knows the keys of {cls.__name__} {arch}'
    backbone = cls(next(iter(cls.variants))).eval()
    with record_attention(backbone, Canvas(64, 96, (40, 20))) as readings, torch.no_grad():
        backbone(torch.zeros(1, 3, 64, 96))
    assert all(reading.title and reading.maps for reading in readings.values())


@pytest.mark.parametrize('name', families())
def test_a_family_has_variants_a_key_table_and_attention_that_can_be_read(name):
    assert_complete(families()[name])


def test_a_missing_key_table_or_attention_is_noticed(monkeypatch):
    with pytest.raises(AssertionError, match='no layout knows the keys'):
        assert_complete(type('Forgetful', (SHViT,), dict(layouts=())))
    monkeypatch.delattr(SingleHeadSelfAttention, 'read_attention')
    with pytest.raises(ValueError, match='no attention layer'):
        assert_complete(SHViT)


@pytest.mark.parametrize('path', PARTS, ids=lambda path: f'{path.parent.name}-{path.stem}')
def test_every_key_table_and_every_attention_is_that_of_a_family(path):
    source = f'mmeffvit.models.{path.parent.name}.{path.stem}'
    used = {
        imported.rpartition('.')[2]
        for file in (*BACKBONES, MIXERS)
        for imported in imported_by(file)
        if imported.startswith(f'{source}.')
    }
    assert used, f'no backbone imports {source}'
    assert layers_in(path) <= used


def layers_in(path: Path) -> set[str]:
    """The layers of a file, except bases and parts of the others."""
    tree = ast.parse(path.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    inner = {ast.unparse(base) for node in classes for base in node.bases}
    inner |= {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {
        node.name
        for node in classes
        if any(getattr(part, 'name', '') == 'forward' for part in node.body)
    } - inner


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
    ignore = shutil.ignore_patterns('__pycache__')
    shutil.copytree(PACKAGE, tmp_path / 'mmeffvit', ignore=ignore)
    folder = tmp_path / 'mmeffvit' / 'models' / 'fifth'
    folder.mkdir()
    (folder / 'backbone.py').write_text(FIFTH)
    done = run_python('-c', USE, cwd=tmp_path, env={'PYTHONPATH': str(tmp_path)})
    assert done.returncode == 0, done.stdout
    assert "['stages.0.blocks.0', 'stages.1.blocks.0']" in done.stdout
    assert "is Fifth 'm' in the theirs layout" in done.stdout
    # a whole release is recognized by the table of the family, its variant by the family's own
    assert 'theirs classifier_fifth_m with 5 classes' in done.stdout
    assert '(theirs layout): 6 tensors loaded, 2 ignored, 0 missing' in done.stdout
