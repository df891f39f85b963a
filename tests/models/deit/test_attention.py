"""The maps of multi-head attention."""

import torch

from mmeffvit.models.deit.attention import MultiHeadAttention

SIZE = (3, 5)


def test_maps_are_the_weights_of_cells_and_of_the_class_token():
    layer = MultiHeadAttention(12, 3).double().eval()
    x = torch.randn(1, 1 + 15, 12, dtype=torch.float64)
    query, key, _ = (m.chunk(3, dim=2) for m in layer.qkv(x).chunk(3, dim=2))
    weights = torch.stack(
        [(q[0] @ k[0].T / 2).softmax(dim=1) for q, k in zip(query, key, strict=True)]
    )
    seen = []
    reading = layer.read_attention((x, SIZE), lambda size: seen.append(size) or 7)
    assert seen[0] == SIZE
    close = torch.testing.assert_close
    close(reading.arrays['attention'].flatten(1), weights[:, 1 + 7, 1:])
    close(reading.arrays['class_tokens'].flatten(1), weights[:, 0, 1:])
    close(reading.maps[''], reading.arrays['attention'].mean(dim=0))
    of_all = layer.read_attention((x, SIZE), None)
    close(of_all.arrays['attention'].flatten(1), weights[:, 1:, 1:].mean(dim=1))
    assert 'class_tokens' not in layer.read_attention((x[:, 1:], SIZE), None).arrays
