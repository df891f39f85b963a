"""Measures of agreement, and the choice of those that are reported."""

import math
from dataclasses import replace

import numpy as np
import pytest

from mmeffvit.deploy.agreement import Measure, worst
from mmeffvit.deploy.compare import compare
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.table import BY_SUFFIX
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.write import write
from mmeffvit.errors import UserError
from mmeffvit.zoo.source import EXPORTED
from tests.deploy import models, tiny


def objects(side: float, shift: float = 0.0) -> dict[str, np.ndarray]:
    boxes = np.array([[0, 0, side, side]], np.float32) + np.float32(shift)
    return dict(boxes=boxes, scores=np.array([0.9], np.float32), labels=np.array([1]))


def test_an_error_beyond_its_limit_is_not_hidden_by_a_larger_one_within():
    found = [objects(4000, shift=3), objects(10, shift=0.5)]  # 4.1 and 0.11 are allowed
    stacked = {name: np.stack([each[name] for each in found]) for name in found[0]}
    errors = compare(lambda images: stacked, lambda _: [objects(4000), objects(10)], [np.zeros(2)])
    (box,) = [error for error in errors if error.kind == 'box error in pixels']
    assert not box.agrees
    assert math.isclose(box.value, 0.5, rel_tol=1e-3)


def test_a_measure_without_a_limit_agrees_and_one_of_no_number_is_the_worst():
    assert Measure('count', math.nan).agrees
    low, none = Measure('noise', 20.0, 15.0, output='a'), Measure('noise', math.nan, 15.0)
    assert low.agrees
    assert not none.agrees
    assert worst([low, none]) == worst([none, low]) == [none]
    assert worst([low, none], 'name') == [low, none]


def test_an_opset_that_the_runtime_lacks_is_named_and_so_is_an_image_without_objects(tmp_path):
    graph = make_graph(models.tiny(models.MASK_RCNN))
    out, options = tmp_path / 'model.onnx', ExportOptions(shape=tiny.SIZE, batch=1)
    with pytest.raises(UserError, match=r'--opset 23: give a lower one, or leave it out for 20'):
        write(graph, out, replace(options, opset=23))
    graph.network.roi_head.test_cfg.score_thr = 1.1
    assert 'finds no object there: give an image with some' in str(write(graph, out, options))


def test_every_format_is_known_as_an_exported_file():
    assert set(EXPORTED) == set(BY_SUFFIX)
