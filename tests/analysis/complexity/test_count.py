"""Parts of a model are counted, and sum to the total; tests/configs has the published counts."""

import json
from importlib.util import find_spec
from pathlib import Path

import mmseg
import pytest

from mmeffvit.analysis.complexity.count import count
from mmeffvit.cli.output import shown
from mmeffvit.errors import UserError
from tests.conftest import ROOT, output_of

CONFIGS = ROOT / 'configs'
PSPNET = (
    Path(mmseg.__file__).parent
    / '.mim/configs/pspnet/pspnet_r50-d8_4xb4-80k_ade20k-512x512.py'
)  # fmt: skip


def rows(result) -> dict[str, int]:
    return {part.name: part.macs for part in result.parts}


@pytest.mark.parametrize(
    'target', ['mmpretrain.PoolFormer:s12', 'SwiftFormer:xs', 'mmdet.ResNet:depth=18']
)
def test_parts_sum_to_the_total(target):
    from torch.utils.flop_counter import FlopCounterMode

    from mmeffvit.analysis.complexity.forward import run_backbone
    from mmeffvit.config.backbones import build_backbone, parse_backbone

    if 'mmpretrain' in target and not find_spec('mmpretrain'):  # importing it would hide a fault
        pytest.skip('mmpretrain is not installed')
    result = count(target, shape=(64, 96))
    model = build_backbone(parse_backbone(target))
    model.requires_grad_(False).eval()
    with FlopCounterMode(display=False) as counter:
        run_backbone(model, shape=(64, 96))
    assert result.total.macs == counter.get_total_flops() // 2
    assert result.total.parameters == sum(p.numel() for p in model.parameters())


def test_a_retinanet_is_counted_with_its_heads():
    once, twice = (
        count(str(CONFIGS / 'retinanet_shvit_s4.py'), shape=(height, 1333))
        for height in (800, 1600)
    )
    assert list(rows(once))[-2:] == ['neck', 'bbox_head']
    assert rows(twice)['bbox_head'] == pytest.approx(2 * rows(once)['bbox_head'], rel=0.05)


def test_a_mask_rcnn_is_counted_with_the_boxes_asked_for():
    config = str(CONFIGS / 'maskrcnn_swiftformer_l1.py')
    thousand = count(config, shape=(128, 128))
    fifty = count(config, shape=(128, 128), proposals=50)
    assert rows(thousand)['roi_head.bbox_head'] == 20 * rows(fifty)['roi_head.bbox_head']
    # two shared layers, then classes and boxes
    per_box = 256 * 7 * 7 * 1024 + 1024 * 1024 + 1024 * (81 + 4 * 80)
    assert rows(fifty)['roi_head.bbox_head'] == 50 * per_box
    assert rows(thousand)['roi_head.mask_head'] == 2 * rows(fifty)['roi_head.mask_head']
    assert 'the second stage gets 50 boxes, a mask head at most 100' in str(fifty)


def test_sizes_below_one_are_refused():
    with pytest.raises(UserError, match='--proposals is 0; give 1 or more'):
        count(str(CONFIGS / 'maskrcnn_swiftformer_l1.py'), proposals=0)
    with pytest.raises(UserError, match='--shape is 0'):
        count('SHViT:s1', shape=(0, 64))


def test_frozen_parameters_are_not_trainable():
    result = count('SHViT:s1:frozen_stages=1', shape=(64, 64))
    assert [(part.name, part.trainable == 0) for part in result.parts] == [
        ('stem', True), ('stages.0', True), ('stages.1', False), ('stages.2', False)
    ]  # fmt: skip
    assert result.device == 'meta'


def test_a_segmentor_is_counted_without_the_head_that_only_training_uses():
    result = count(str(PSPNET))
    parts = {part.name: part for part in result.parts}
    assert result.shape == (512, 512)
    assert parts['decode_head'].macs > 0
    assert parts['auxiliary_head'].parameters > 0
    assert not parts['auxiliary_head'].ran


def test_models_that_the_meta_device_rejects_are_counted_on_the_cpu_with_a_note(
    capsys, monkeypatch
):
    from mmeffvit.analysis.complexity import count as complexity
    from mmeffvit.analysis.complexity.forward import run_backbone

    def choosy(model, *, shape):
        if next(model.parameters()).is_meta:
            raise NotImplementedError('no meta kernel')
        run_backbone(model, shape=shape)

    expected = count('SHViT:s1', shape=(64, 64))
    monkeypatch.setattr(complexity, 'run_backbone', choosy)
    with shown():
        result = count('SHViT:s1', shape=(64, 64))
    assert result.device == 'cpu'
    assert result.parts == expected.parts
    assert 'run on the CPU' in str(result)
    assert 'no meta kernel' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('target', 'part'),
    [
        ('SHVit:s4', 'SHViT, SwiftFormer'),
        ('mmeffvit.TransposedFPN', 'in_channels'),
        ('SHViT:s1:nothing', 'nothing=VALUE'),
    ],
)
def test_an_unknown_target_is_named(target, part):
    with pytest.raises(UserError, match=part.replace('(', r'\(')):
        count(target)


@pytest.mark.slow
def test_the_tool_prints_a_table_and_writes_json(tmp_path):
    path = tmp_path / 'counted.json'
    printed = output_of(
        'complexity', 'MobileViTv2:100', '--shape', 256, 256, '--json', path,
    )  # fmt: skip
    table = [line for line in printed.splitlines() if line.endswith(' G')]
    assert len({len(line) for line in table}) == 1
    assert 'FlopCounterMode / 2' in printed
    written = json.loads(path.read_text())
    assert written['shape'] == [256, 256]
    assert written['total']['parameters'] == sum(p['parameters'] for p in written['parts'])
    assert list(tmp_path.iterdir()) == [path]
