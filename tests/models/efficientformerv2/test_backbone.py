"""EfficientFormerV2: any size, both attentions."""

import copy

import pytest
import torch

from mmeffvit.models import EfficientFormerV2
from mmeffvit.models.efficientformerv2.attention import TalkingHeadsAttention
from mmeffvit.models.efficientformerv2.position_bias import PositionBias
from mmeffvit.models.layers.regularization import DropPath, LayerScale
from mmeffvit.models.mobile_attention.attention import MobileAttention
from mmeffvit.registry import MODELS
from tests.models.declared import EFFICIENTFORMERV2 as TINY
from tests.models.parity import load_from, randomized


def with_tables(**options) -> EfficientFormerV2:
    """A small backbone whose maps depend visibly on the tables."""
    backbone = EfficientFormerV2(TINY, **options)
    for module in backbone.modules():
        if isinstance(module, PositionBias):
            torch.nn.init.normal_(module.table)
        if isinstance(module, LayerScale):
            torch.nn.init.ones_(module.scale)
    return backbone.eval()


def last_map(backbone: EfficientFormerV2, height: int = 96, width: int = 160) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    x = torch.rand(1, 3, height, width, generator=generator)
    with torch.no_grad():
        return backbone(x.to(next(backbone.parameters()).dtype))[-1]


def test_weights_for_224_work_at_any_size_with_their_tables(timm, tmp_path):
    theirs = randomized(timm.create_model('efficientformerv2_s0'))
    backbone = load_from(EfficientFormerV2('s0'), theirs, tmp_path)
    flat = copy.deepcopy(backbone)
    for module in flat.modules():
        if isinstance(module, PositionBias):
            torch.nn.init.zeros_(module.table)
    for height, width in [(256, 320), (333, 250), (97, 61)]:
        ours, without = last_map(backbone, height, width), last_map(flat, height, width)
        assert ours.shape[2:] == (-(-height // 32), -(-width // 32))
        assert (ours - without).abs().max() > 1e-3


def test_tables_are_resized_to_the_resolution_on_loading(timm, tmp_path, log):
    theirs = randomized(timm.create_model('efficientformerv2_s0'))
    ours = EfficientFormerV2('s0', resolution=(256, 448))
    load_from(ours, theirs, tmp_path)
    table = ours.stages[3].blocks[-1].attention.mixer.position_bias
    source = theirs.stages[3].blocks[-1].token_mixer.attention_biases
    assert table.grid == (8, 14)
    # corners are kept: distance zero, and the largest distances in rows, columns and both
    image, other = table.table.view(8, 8, 14), source.view(8, 7, 7)
    rows, columns = [0, 0, -1, -1], [0, -1, 0, -1]
    torch.testing.assert_close(image[:, rows, columns], other[:, rows, columns])
    assert '5 of them resized' in log.text
    # at the size of the resolution, a backbone with tables for 224 does the same in its forward
    small = load_from(EfficientFormerV2('s0'), theirs, tmp_path)
    torch.testing.assert_close(last_map(ours, 256, 448), last_map(small, 256, 448))


def test_new_weights_take_effect_in_eval_mode_immediately():
    backbone, other = with_tables(), with_tables()
    before = last_map(backbone)
    backbone.load_state_dict(other.state_dict())
    assert not torch.equal(last_map(backbone), before)
    assert torch.equal(last_map(backbone), last_map(other))


def test_no_stale_bias_remains_after_a_move_a_new_size_or_training():
    backbone = with_tables()
    first = last_map(backbone)
    torch.testing.assert_close(last_map(backbone.double()).float(), first, rtol=1e-3, atol=1e-4)
    backbone.float()
    last_map(backbone, 64, 64)  # another size in between
    torch.testing.assert_close(last_map(backbone), first)
    backbone.train()
    backbone(torch.rand(2, 3, 64, 64))[-1].sum().backward()
    tables = [m.table for m in backbone.modules() if isinstance(m, PositionBias)]
    assert tables
    assert all(table.grad is not None and table.grad.abs().max() > 0 for table in tables)
    backbone.eval()
    before = last_map(backbone)
    with torch.no_grad():
        for table in tables:
            table.add_(1 + torch.arange(table.shape[1]))  # like a step of an optimizer
    assert not torch.equal(last_map(backbone), before)


def test_drop_path_rises_over_all_blocks():
    backbone = EfficientFormerV2('s0', drop_path_rate=0.13)
    probs = [m.drop_prob for m in backbone.modules() if isinstance(m, DropPath)]
    assert probs == pytest.approx([0.13 * i / 13 for i in range(14)])


def test_initial_values_are_the_official_ones():
    backbone = EfficientFormerV2('s0')
    (scale,) = {m.scale.unique().item() for m in backbone.modules() if isinstance(m, LayerScale)}
    assert scale == pytest.approx(1e-5)
    feed_forward = backbone.stages[3].blocks[-1].feed_forward
    # 123,904 weights: the standard deviation of their deviation is 0.2 %
    assert feed_forward.expand.conv.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert feed_forward.expand.conv.bias.abs().max() == 0
    assert feed_forward.depthwise.conv.bias.abs().max() > 0
    assert all(m.table.abs().max() == 0 for m in backbone.modules() if isinstance(m, PositionBias))


def mixers(backbone: EfficientFormerV2) -> list[type]:
    found = [
        m for m in backbone.modules() if isinstance(m, TalkingHeadsAttention | MobileAttention)
    ]
    return [type(m) for m in found]


def test_mobile_attention_replaces_attention_in_blocks_and_optionally_in_downsampling():
    assert mixers(EfficientFormerV2('s0')) == [TalkingHeadsAttention] * 5
    mobile = EfficientFormerV2('s0', attention='mobile')
    # the step from the third stage to the fourth comes after the two blocks of the third
    assert mixers(mobile) == [MobileAttention] * 2 + [TalkingHeadsAttention] + [MobileAttention] * 2
    whole = EfficientFormerV2('s0', attention='mobile', downsampling='mobile')
    assert mixers(whole) == [MobileAttention] * 5
    assert not any('table' in key for key in whole.state_dict())


def test_arguments_reach_mobile_attention():
    own = dict(type='mobile', form='code', competition=False)
    backbone = EfficientFormerV2(TINY, attention=own)
    found = [m for m in backbone.modules() if isinstance(m, MobileAttention)]
    settings = {(m.form.normalizer, m.competition, m.head_channels) for m in found}
    assert settings == {('head', False, 4)}
    assert len(found) == 2


@pytest.mark.parametrize(('downsampling', 'dropped'), [('local_global', 20), ('mobile', 21)])
def test_original_weights_load_into_mobile_attention(timm, tmp_path, log, downsampling, dropped):
    theirs = randomized(timm.create_model('efficientformerv2_s0'))
    ours = EfficientFormerV2('s0', attention='mobile', downsampling=downsampling)
    load_from(ours, theirs, tmp_path)
    value = ours.stages[3].blocks[-1].attention.value.conv.weight
    assert torch.equal(value, theirs.stages[3].blocks[-1].token_mixer.v.conv.weight)
    # a table and two talking heads with bias in each of four blocks; 9 tensors of classifiers
    assert f'{dropped + 9} ignored, 0 missing' in log.text


def test_the_output_of_mobile_attention_does_not_grow_with_the_image():
    sizes = {}
    for normalizer in ('token', 'head'):
        layer = MobileAttention(64, 64, 16, form=dict(type='code', normalizer=normalizer))
        query = torch.randn(1, 64, 8, 8)
        value = torch.ones(1, 64, 8, 8)
        tiled = (m.repeat(1, 1, 4, 4) for m in (query, query, value))
        sizes[normalizer] = layer(*tiled).mean() / layer(query, query, value).mean()
    assert sizes['token'] == pytest.approx(1, rel=1e-3)
    assert sizes['head'] == pytest.approx(16, rel=1e-3)


@pytest.mark.parametrize(
    ('options', 'named'),
    [
        (
            dict(attention='talking'),
            r"attention is 'talking'; choose one of \('local_global', 'mobile'",
        ),
        (dict(downsampling='flow'), "downsampling is 'flow'; choose one of"),
        (dict(attention=dict(type='mobile', form='x')), "form is 'x'; choose one of"),
        (
            dict(attention=dict(type='local_global', form='code')),
            "form is 'code': attention='local_global' takes no arguments",
        ),
        (
            dict(downsampling=dict(type='mobile', stride=2)),
            "stride is 2: downsampling='mobile' takes head_channels, ",
        ),
        (
            dict(attention=dict(type='mobile', head_channels=3)),
            'head_channels is 3; choose a divisor of 256',
        ),
        (dict(attention=dict(window=3)), r"attention is \{'window': 3\}; choose one of"),
        (dict(downsampling=dict(type='mobile', head_channels=256)), 'choose a divisor of 128'),
        (dict(resolution=0), r'resolution is \(0, 0\)'),
        (dict(arch=dict(TINY, attended=(3, 0))), 'got EfficientFormerV2Arch'),
        (dict(arch=dict(TINY, depths=(1, 1, 2))), 'got EfficientFormerV2Arch'),
    ],
)
def test_bad_arguments_are_named_with_their_choices(options, named):
    with pytest.raises(ValueError, match=named):
        EfficientFormerV2(**options)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('attention', ['local_global', 'mobile'])
def test_large_inputs_stay_finite_in_autocast(attention, dtype):
    """With statistics of normal inputs, inputs of 1e4 give maps of 1e4 and overflowing scores."""
    torch.manual_seed(0)
    model = EfficientFormerV2(TINY, attention=attention)
    for _ in range(5):
        model(torch.randn(2, 3, 64, 64))
    scores = []
    for module in model.eval().modules():
        if isinstance(module, TalkingHeadsAttention):
            module.register_forward_pre_hook(
                lambda _, inputs: scores.append(inputs[0].abs().max() * inputs[1].abs().max())
            )
    with torch.no_grad(), torch.autocast('cpu', dtype=dtype):
        maps = model(1e4 * torch.randn(2, 3, 64, 64))
    assert max(map(float, scores)) > torch.finfo(torch.float16).max
    assert all(feature.isfinite().all() for feature in maps)


def test_mobile_attention_has_a_name_of_its_own_with_all_arguments():
    options = dict(arch=TINY, resolution=96, downsampling='mobile')
    named = MODELS.build(dict(type='mmeffvit.EfficientFormerV2MobiAtt', **options))
    plain = MODELS.build(dict(type='mmeffvit.EfficientFormerV2', attention='mobile', **options))
    assert any(isinstance(m, MobileAttention) for m in named.modules())
    plain.load_state_dict(named.state_dict())
    x = torch.randn(1, 3, 64, 96)
    with torch.no_grad():
        for one, other in zip(named.eval()(x), plain.eval()(x), strict=True):
            assert one.equal(other)
