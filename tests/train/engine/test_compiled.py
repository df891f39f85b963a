"""Compiled parts of a model."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from mmeffvit.errors import UserError
from mmeffvit.train.engine.compiled import CompileHook

SIZES = ((8, 8), (12, 8), (16, 20), (24, 24), (8, 12), (32, 16))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())


def test_compiled_parts_are_compiled_for_one_size_and_for_any_and_not_in_validation():
    model, counter = Network(), CompileCounter()
    expected = copy.deepcopy(model)
    hook = CompileHook(['backbone', 'neck'], backend=counter)
    runner = SimpleNamespace(model=model)
    hook.before_train(runner)
    for size in SIZES:
        images = torch.rand(2, 3, *size)
        torch.testing.assert_close(model.backbone(images), expected.backbone(images))
    compiled = counter.frame_count
    assert compiled <= 3  # for the first size, for any height, for any size
    hook.before_val(runner)
    model.eval().backbone(images)
    hook.after_val(runner)
    model.train().backbone(images)
    assert counter.frame_count == compiled
    assert 'forward' not in vars(model.backbone)
    with pytest.raises(UserError, match='Network has no neck to compile'):
        CompileHook(['neck']).before_train(runner)
