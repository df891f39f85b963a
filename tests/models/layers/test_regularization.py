"""Layer scale and drop path."""

import pytest
import torch

from mmeffvit.models.layers.regularization import DropPath


def test_drop_path_keeps_the_mean_and_drops_whole_samples():
    layer = DropPath(0.25).train()
    x = torch.ones(4000, 2, 1, 1)
    y = layer(x)
    assert y.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert torch.equal(y[:, 0], y[:, 1])
    # 4000 samples: the standard deviation of the mean is 0.009
    assert y.mean().item() == pytest.approx(1.0, abs=0.04)
