"""ExecuTorch programs, run by its runtime."""

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.deploy.agreement import largest_error
from mmeffvit.deploy.formats.executorch.write import DECOMPOSITIONS, write
from mmeffvit.deploy.formats.fixed_size import RESIZES, calls, export_fixed
from mmeffvit.deploy.formats.table import open_model
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.raw import before_nms
from mmeffvit.errors import UserError
from tests.deploy import models, tiny

# first, like long tests: its compiler is a subprocess
pytestmark = pytest.mark.slow


def test_a_program_gives_the_outputs_of_the_graph_mostly_by_xnnpack(tmp_path):
    pytest.importorskip('executorch')
    graph = tiny.graph(tiny.FIRST_STAGE)
    out = tmp_path / 'model.pte'
    said = write(tiny.export(graph), out)
    assert [path.name for path in tmp_path.iterdir()] == ['model.pte']
    delegated, total = map(int, re.search(r'runs (\d+) of (\d+) operators', said).groups())
    assert delegated / total > 0.7
    assert 'conv' not in said
    images = tiny.images().flip(3)  # not the image that the export was checked on
    with torch.no_grad():
        expected = graph(images)
    permuted = images.contiguous(memory_format=torch.channels_last)  # other strides
    for given in (images, permuted):
        found = open_model(out).run(given.numpy())
        for one, other in zip(expected, found.values(), strict=True):
            assert largest_error(one.numpy(), other) < 1e-4
    with pytest.raises(UserError, match=r'takes images of \(1, 3, 64, 96\)'):
        open_model(out).run(np.zeros((1, 3, 32, 32), np.float32))


class Parts(nn.Module):
    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        first, second = images.split((1, 2), dim=1)
        same = F.interpolate(second, (64, 96), mode='bilinear', align_corners=True)
        half = F.interpolate(first, (32, 48), mode='bilinear')
        return same * 2, half


def test_rewritten_programs_give_the_same_without_splits_and_idle_resizes():
    program = export_fixed(Parts(), tiny.images(), 'a test')
    program = program.run_decompositions(DECOMPOSITIONS)
    targets = [node.target for node in calls(program)]
    assert not set(DECOMPOSITIONS).intersection(targets)
    assert sum(target in RESIZES for target in targets) == 1  # the other did not change the size
    for one, other in zip(program.module()(tiny.images()), Parts()(tiny.images()), strict=True):
        torch.testing.assert_close(one, other)


def test_nms_is_rejected_with_a_message_and_can_be_disabled():
    graph, images = make_graph(models.tiny('ssdlite_mobilevitv2_050')), tiny.images()
    with pytest.raises(UserError, match=r'ExecuTorch has no kernel for mmeffvit\.nms_mask'):
        export_fixed(graph, images, 'ExecuTorch')
    expected = graph.candidates(graph.normalize(images), tiny.SIZE)
    found = export_fixed(before_nms(graph, tiny.SIZE), images, 'a test').module()(images)
    torch.testing.assert_close(found, expected)
    with pytest.raises(UserError, match='MaskRCNNGraph selects regions'):
        before_nms(make_graph(models.tiny(models.MASK_RCNN)), tiny.SIZE)
    backbone = tiny.graph()
    assert before_nms(backbone, tiny.SIZE) is backbone
