"""Packages that only some of the formats need."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from types import ModuleType

from mmeffvit.errors import UserError

EXTRAS = {  # package: extra of setup.py that installs it
    'onnx': 'onnx',
    'onnxruntime': 'onnx',
    'onnxscript': 'onnx',
    'openvino': 'openvino',
    'executorch': 'executorch',
    'coremltools': 'coreml',
}


def require(name: str, purpose: str) -> ModuleType:
    """Import a module of an optional package.

    Args:
        name: Of the module, with its package: a row of :data:`EXTRAS`.
        purpose: What it is needed for, in words that begin the message.

    Raises:
        UserError: If it is not installed, or does not load; the message has the command.
    """
    package = name.partition('.')[0]
    cure = f"pip install 'mmeffvit[{EXTRAS[package]}]'"
    try:
        with quietly():
            return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or '').partition('.')[0] != package:
            raise UserError(
                f'{purpose} needs {package}, which needs {error.name}: {cure}'
            ) from error
        raise UserError(f'{purpose} needs {package}, which is not installed: {cure}') from error
    except (ImportError, OSError) as error:
        raise UserError(
            f'{purpose} needs {package}, which does not load: {error}; {cure}'
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Hold back the log below errors, warnings and progress bars of a converter.

    What they say, of versions not tried and of parts for other machines, no user could mend.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter('ignore')
            yield
    finally:
        logging.disable(before)
