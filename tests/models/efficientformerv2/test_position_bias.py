"""Relative position biases at their own size and at other sizes."""

import pytest
import torch

from mmeffvit.models.efficientformerv2.position_bias import PositionBias, resize_table


def test_resizing_is_bilinear_in_both_distances_and_keeps_the_corners():
    rows, columns = torch.arange(3.0)[:, None], torch.arange(4.0)
    table = (10 * rows + columns).view(1, -1)  # linear: bilinear interpolation is exact
    resized = resize_table(table, (3, 4), (5, 7)).view(5, 7)
    expected = 10 * torch.arange(5.0)[:, None] / 2 + torch.arange(7.0) / 2
    torch.testing.assert_close(resized, expected)


@pytest.mark.parametrize('stride', [1, 2])
def test_a_resized_matrix_is_that_of_the_table_as_an_image(stride):
    bias = PositionBias(2, (6, 6))
    torch.nn.init.normal_(bias.table)
    other = PositionBias(2, (6, 6), resize_matrix=True)
    other.load_state_dict(bias.state_dict())
    assert torch.equal(other((6, 6), stride), bias((6, 6), stride))
    rows, columns = 4 // stride, 8 // stride
    matrix = bias((6, 6), stride)[None]
    resized = torch.nn.functional.interpolate(matrix, (rows * columns, 32), mode='bicubic')[0]
    assert torch.equal(other((4, 8), stride), resized)
