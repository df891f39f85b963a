"""Mask R-CNN with Mobile-Attention and without."""

import pytest

from tests.configs.models import build_empty, count


@pytest.mark.parametrize('arch', ['s2', 'l'])
def test_mobile_attention_removes_parameters_and_changes_no_other_module(arch):
    plain = build_empty(f'maskrcnn_efficientformerv2_{arch}')
    mobile = build_empty(f'maskrcnn_efficientformerv2_{arch}_mobile')
    lost = set(plain.state_dict()) - set(mobile.state_dict())
    assert lost
    assert all(name.startswith('backbone.') and '.mixer.' in name for name in lost)
    assert set(mobile.state_dict()) < set(plain.state_dict())
    assert count(plain) - count(mobile) == sum(
        parameter.numel() for name, parameter in plain.named_parameters() if name in lost
    )
