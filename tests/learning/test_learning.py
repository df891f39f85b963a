"""Every head overfits a few images: data, backbone, head, loss and metric work together."""

import pytest

from tests.learning.cases import CASES
from tests.learning.overfit import overfit
from tests.variants import sampled

pytest.importorskip('mmdet')
pytest.importorskip('mmseg')
pytestmark = pytest.mark.slow
FEW = [case for case in CASES if case.head in ('GFLite', 'Semantic FPN')]


@pytest.mark.parametrize('case', sampled(CASES, FEW), ids=lambda case: case.head)
def test_a_head_overfits_a_few_images(case, tmp_path):
    assert overfit(case, tmp_path, iterations=case.iterations) >= case.floor
