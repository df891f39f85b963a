"""Layer scale and drop path."""

import pytest
import torch

from mmeffvit.models.layers.regularization import DropPath, LayerScale


def test_layer_scale_adds_a_branch_with_a_factor_per_channel():
    layer = LayerScale(3)
    torch.nn.init.normal_(layer.scale)
    x, branch = torch.randn(2, 2, 3, 4, 4)
    torch.testing.assert_close(layer(x, branch), x + branch * layer.scale)


def test_drop_path_keeps_the_mean_and_drops_whole_samples():
    layer = DropPath(0.25).train()
    x = torch.ones(4000, 2, 1, 1)
    y = layer(x)
    assert y.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert torch.equal(y[:, 0], y[:, 1])
    # 4000 samples: the standard deviation of the mean is 0.009
    assert y.mean().item() == pytest.approx(1.0, abs=0.04)


def test_drop_path_is_the_identity_in_eval_mode():
    x = torch.randn(4, 2, 3, 3)
    assert DropPath(0.9).eval()(x) is x
