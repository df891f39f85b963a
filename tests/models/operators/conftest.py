"""The operators behind mmcv's functions, with torchvision and in plain PyTorch."""

import sys

import mmcv.ops  # noqa: F401
import pytest

from mmeffvit.models.operators import backend, functions

MODULES = (
    'deform_conv',
    'focal_loss',
    'modulated_deform_conv',
    'multi_scale_deform_attn',
    'nms',
    'roi_align',
)


def use_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let mmcv call our functions, also where it is compiled."""
    for name in MODULES:
        monkeypatch.setattr(sys.modules[f'mmcv.ops.{name}'], 'ext_module', functions)


@pytest.fixture
def _operators(monkeypatch: pytest.MonkeyPatch) -> None:
    use_ours(monkeypatch)


@pytest.fixture(params=['torchvision', 'plain'])
def implementation(request: pytest.FixtureRequest, _operators: None, monkeypatch) -> str:
    """Run a test with each implementation that works here."""
    if request.param == 'plain':
        monkeypatch.setattr(backend, 'devices', tuple)
    elif 'cpu' not in backend.devices():
        pytest.skip("torchvision's operators do not load here")
    return request.param
