"""ONNX files and ONNX Runtime."""

import os
from functools import partial

from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.utils.onnx import open_session, run_session


def open_onnx(model: str | os.PathLike | bytes, threads: int = 0, device: str = 'cpu') -> Session:
    """Load an ONNX file, or its bytes, with ONNX Runtime."""
    session = open_session(model, threads, device)
    inputs = session.get_inputs()
    shape = tuple(inputs[0].shape) if [each.type for each in inputs] == ['tensor(float)'] else ()
    return Session(
        shape,
        tuple(output.name for output in session.get_outputs()),
        dict(session.get_modelmeta().custom_metadata_map),
        partial(run_session, session),
    )
