"""The peak is that of the tensors alive at the same time."""

import torch
from torch import nn

from benchmarks.memory import peak_bytes

ROWS, WIDTH = 64, 256
MAP = 4 * ROWS * WIDTH  # bytes of one float32 tensor
SLACK = 4096  # scalars, and rounding of the allocator


def test_a_released_tensor_is_not_part_of_the_peak():
    x = torch.randn(ROWS, WIDTH)

    def step() -> None:
        y = x + 1  # one
        y = y * 2  # two, until the first is released
        y = y - 3

    assert 2 * MAP <= peak_bytes(step, 'cpu') <= 2 * MAP + SLACK


def test_the_peak_of_a_training_step_counts_what_backward_needs_and_its_gradients():
    depth = 6
    x = torch.randn(ROWS, WIDTH)
    model = nn.Sequential(*[nn.Sigmoid() for _ in range(depth)])
    x.requires_grad_()

    def step() -> None:
        model(x).sum().backward()
        x.grad = None

    # every sigmoid saves its output; in its first step, backward adds the gradient of the last
    # output, an expanded scalar that needs no memory, and allocates that of the one before
    peak = peak_bytes(step, 'cpu')
    assert (depth + 1) * MAP <= peak <= (depth + 2) * MAP + SLACK
