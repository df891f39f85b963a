"""Relative position biases at their own size and at other sizes."""

import copy
import io

import pytest
import torch
from torch.func import functional_call, jvp, vmap

from mmeffvit.models.efficientformerv2.position_bias import PositionBias, resize_table


def made_for(rows: int, columns: int) -> PositionBias:
    bias = PositionBias(2, (rows, columns))
    torch.nn.init.normal_(bias.table)
    return bias


@pytest.mark.parametrize('stride', [1, 2])
@pytest.mark.parametrize('size', [(3, 3), (3, 5), (1, 4)])
def test_a_bias_is_the_entry_of_its_distance(size, stride):
    rows, columns = size
    bias = made_for(rows, columns)
    found = bias(size, stride)
    queries = [(r, c) for r in range(0, rows, stride) for c in range(0, columns, stride)]
    keys = [(r, c) for r in range(rows) for c in range(columns)]
    assert found.shape == (2, len(queries), len(keys))
    for i, (row, column) in enumerate(queries):
        for j, (other_row, other_column) in enumerate(keys):
            entry = abs(row - other_row) * columns + abs(column - other_column)
            assert torch.equal(found[:, i, j], bias.table[:, entry])


def test_a_table_is_unchanged_to_the_bit_at_its_own_size():
    table = torch.randn(8, 49)
    assert torch.equal(resize_table(table, (7, 7), (7, 7)), table)


def test_resizing_is_bilinear_in_both_distances_and_keeps_the_corners():
    rows, columns = torch.arange(3.0)[:, None], torch.arange(4.0)
    table = (10 * rows + columns).view(1, -1)  # linear: bilinear interpolation is exact
    resized = resize_table(table, (3, 4), (5, 7)).view(5, 7)
    expected = 10 * torch.arange(5.0)[:, None] / 2 + torch.arange(7.0) / 2
    torch.testing.assert_close(resized, expected)


def test_another_size_uses_the_resized_table():
    bias = made_for(4, 4)
    larger = made_for(6, 8)
    with torch.no_grad():
        larger.table.copy_(resize_table(bias.table, (4, 4), (6, 8)))
    torch.testing.assert_close(bias((6, 8)), larger((6, 8)))


SIZE = (5, 7)


def expected(bias: PositionBias, size: tuple[int, int] = SIZE) -> torch.Tensor:
    """The biases of a new module with the same table."""
    other = PositionBias(bias.table.shape[0], bias.grid)
    other.table = torch.nn.Parameter(bias.table.detach().clone())
    return other.eval()(size).detach()


@pytest.fixture
def used() -> PositionBias:
    """A module that has cached the biases of SIZE."""
    bias = made_for(4, 4).eval()
    with torch.no_grad():
        first = bias(SIZE)
        assert bias(SIZE) is first
    return bias


def load(bias: PositionBias) -> None:
    bias.load_state_dict({'table': torch.randn_like(bias.table)})


def load_by_assignment(bias: PositionBias) -> None:
    bias.load_state_dict({'table': torch.randn_like(bias.table)}, assign=True)


def average(bias: PositionBias) -> None:
    bias.table.data.copy_(torch.randn_like(bias.table))  # as hooks of EMA weights do


def move(bias: PositionBias) -> None:
    bias.to('meta').to_empty(device='cpu')
    bias.table.data.normal_()


def step(bias: PositionBias) -> None:
    bias(SIZE).square().sum().backward()  # in eval mode, as in a frozen stage
    torch.optim.SGD(bias.parameters(), lr=0.1).step()


def train(bias: PositionBias) -> None:
    bias.train()
    step(bias)
    bias.eval()


@pytest.mark.parametrize('change', [load, load_by_assignment, average, move, step, train])
def test_cached_biases_follow_the_table(used, change):
    before = used._cached.biases.clone()
    with torch.enable_grad():
        change(used)
    with torch.no_grad():
        found = used(SIZE)
    assert torch.equal(found, expected(used))
    assert not torch.equal(found, before)


@pytest.mark.parametrize('dtype', [torch.float64, torch.bfloat16])
def test_cached_biases_follow_the_dtype_of_the_table(used, dtype):
    with torch.no_grad():
        found = used.to(dtype)(SIZE)
    assert found.dtype == dtype
    assert torch.equal(found, expected(used))


def test_cached_biases_are_not_used_for_another_size_stride_or_device(used):
    with torch.no_grad():
        assert torch.equal(used((7, 5)), expected(used, (7, 5)))
        assert used(SIZE, 2).shape == (2, 3 * 4, 35)
        assert torch.equal(used(SIZE), expected(used))
        assert used.to('meta')(SIZE).is_meta


@pytest.mark.parametrize('training', [False, True])
def test_biases_with_a_gradient_are_never_cached(used, training):
    used.train(training)
    used(SIZE).sum().backward()
    assert used.table.grad.abs().sum() > 0
    assert used._cached is None


def test_biases_cached_in_inference_mode_work_under_no_grad():
    bias = made_for(4, 4).eval()
    with torch.inference_mode():
        first = bias(SIZE)
    with torch.no_grad():
        assert torch.equal(bias(SIZE) + 0, first)
    bias(SIZE).sum().backward()


def test_copies_and_checkpoints_have_no_cached_biases(used):
    file = io.BytesIO()
    torch.save(used, file)
    sizes = [len(file.getvalue())]
    used._cached, file = None, io.BytesIO()
    torch.save(used, file)
    assert sizes == [len(file.getvalue())]
    with torch.no_grad():
        used(SIZE)
    assert copy.deepcopy(used)._cached is None
    assert list(used.state_dict()) == ['table']


def test_functional_call_with_other_weights_computes_its_own_biases(used):
    with torch.no_grad():
        for make in (torch.Tensor.clone, lambda t: torch.nn.Parameter(t.clone())):
            table = make(torch.randn_like(used.table))
            found = functional_call(used, {'table': table}, (SIZE,))
            assert torch.equal(found, functional_call(made_for(4, 4), {'table': table}, (SIZE,)))
        tables = torch.randn(3, *used.table.shape)
        each = vmap(lambda table: functional_call(used, {'table': table}, (SIZE,)))(tables)
        for table, found in zip(tables, each, strict=True):
            assert torch.equal(found, functional_call(used, {'table': table}, (SIZE,)))
        assert torch.equal(used(SIZE), expected(used))


def test_biases_computed_inside_a_transform_work_outside(used):
    used._cached = None
    x = torch.randn(1)
    with torch.no_grad():
        jvp(lambda x: x * used(SIZE), (x,), (x,))
        assert torch.equal(used(SIZE), expected(used))
        assert used(SIZE).add(1).isfinite().all()


@pytest.mark.filterwarnings('ignore::torch.jit.TracerWarning', 'ignore::DeprecationWarning')
def test_graphs_contain_the_table_and_no_cached_biases(used):
    def compiled(bias):
        return torch.compile(bias, backend='eager', fullgraph=True)

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = used

        def forward(self, x):
            return x + self.bias(SIZE)

    x = torch.zeros(1)
    with torch.no_grad():
        for make in (
            compiled,
            lambda module: torch.jit.trace(module, x),
            lambda module: torch.export.export(module, (x,)).module(),
        ):
            used(SIZE)
            module = Sum()
            graph = make(module)
            assert torch.equal(graph(x), expected(used))
            for state in (graph.state_dict(), module.state_dict()):
                for table in state.values():
                    table.mul_(2)  # the same tensor, except in an exported graph
            found = graph(x)
            table = next(iter(graph.state_dict().values()))
            assert torch.equal(found, functional_call(used, {'table': table}, (SIZE,)))
    torch.compiler.reset()


@pytest.mark.parametrize('stride', [1, 2])
def test_a_resized_matrix_is_that_of_the_table_as_an_image(stride):
    bias = made_for(6, 6)
    other = PositionBias(2, (6, 6), resize_matrix=True)
    other.load_state_dict(bias.state_dict())
    assert torch.equal(other((6, 6), stride), bias((6, 6), stride))
    rows, columns = 4 // stride, 8 // stride
    matrix = bias((6, 6), stride)[None]
    resized = torch.nn.functional.interpolate(matrix, (rows * columns, 32), mode='bicubic')[0]
    assert torch.equal(other((4, 8), stride), resized)
