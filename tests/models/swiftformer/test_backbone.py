"""SwiftFormer: sizes, initial values."""

import pytest

from mmeffvit.models import SwiftFormer
from mmeffvit.models.layers.regularization import DropPath, LayerScale


def test_drop_path_rises_over_the_attention_encoders_alone():
    backbone = SwiftFormer('xs', drop_path_rate=0.15)
    probs = [m.drop_prob for m in backbone.modules() if isinstance(m, DropPath)]
    # depths 3, 3, 6, 4: the last blocks are the 3rd, 6th, 12th and 16th of 16
    assert probs == pytest.approx([0.15 * i / 15 for i in (2, 5, 11, 15)])


def test_initial_values_are_the_official_ones():
    backbone = SwiftFormer('xs')
    scales = {m.scale.unique().item() for m in backbone.modules() if isinstance(m, LayerScale)}
    assert sorted(scales) == pytest.approx([1e-5, 1.0])
    encoder = backbone.stages[3].blocks[-1]
    # 193,600 weights: the standard deviation of their deviation is 0.2 %
    assert encoder.feed_forward.expand.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert encoder.feed_forward.expand.bias.abs().max() == 0
    assert encoder.attention.score.weight.std().item() == pytest.approx(1.0, rel=0.2)


def test_output_norms_are_optional():
    keys = SwiftFormer('xs', output_norm=False).state_dict()
    assert not any(key.startswith('output_norms') for key in keys)
    extra = [p for name, p in SwiftFormer('xs').named_parameters() if name not in keys]
    assert sum(p.numel() for p in extra) == 2 * (48 + 56 + 112 + 220)


def test_arch_may_be_spelled_out():
    backbone = SwiftFormer(dict(channels=[8, 16, 16, 24], depths=[1, 1, 2, 1]))
    assert backbone.channels == (8, 16, 16, 24)
    assert len(backbone.stages[2].blocks) == 2
