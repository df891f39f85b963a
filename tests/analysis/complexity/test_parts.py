"""MACs of attention layers are those of their matrix products, on any device."""

import pytest
import torch

from mmeffvit.analysis.complexity.parts import count_modules
from mmeffvit.models.mobile_attention.mixers import MIXERS

C, D, N = 16, 4, 30  # channels of queries and values, channels of a head, tokens
LINEAR = 2 * C * D * N  # K^T V of every head, and its product with Q
COUNTS = {
    'mobile': LINEAR,
    'token_linear': LINEAR,
    'head_linear': LINEAR,
    'castling': LINEAR + 9 * C * N,
    'flow': LINEAR,
    'squeeze_excite': LINEAR + 2 * C,  # one hidden unit
    'gated': LINEAR + C**2 * N,
    'token_softmax': 2 * C * N**2,
    'head_softmax': 2 * C * (C // D) * N,
    'hydra': C * N,
}


@pytest.mark.parametrize('device', ['meta', 'cpu'])
@pytest.mark.parametrize('name', [name for name in MIXERS if name != 'eva'])
def test_products_of_a_mixer_are_counted(name, device):
    with torch.device(device):
        layer = MIXERS[name](C, C, C // D).eval()
        maps = [torch.zeros(1, C, 5, 6) for _ in range(3)]
    assert sum(count_modules(layer, lambda run: run(*maps)).values()) == COUNTS[name]


@pytest.mark.parametrize('device', ['meta', 'cpu'])
def test_the_cost_of_eva_grows_linearly(device):
    costs = []
    with torch.device(device):
        layer = MIXERS['eva'](C, C, C // D).eval()
        for side in (28, 56, 112):
            maps = [torch.zeros(1, C, side, side) for _ in range(3)]
            own = count_modules(layer, lambda run, maps=maps: run(*maps))
            # summaries of the 49 chunks have linear layers, whose cost is constant
            costs.append(sum(own.values()) - 2 * 49 * C * D)
    assert costs[1] == 4 * costs[0]
    assert costs[2] == 4 * costs[1]
