"""What tests of the page share."""

import pytest

from mmeffvit.deploy.web import runtime
from mmeffvit.errors import UserError


@pytest.fixture(scope='session')
def runtime_files() -> dict[str, bytes]:
    """onnxruntime-web."""
    try:
        return runtime.fetch_runtime()
    except UserError as error:
        pytest.skip(str(error))
