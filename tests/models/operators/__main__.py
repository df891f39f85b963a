"""``python -m tests.models.operators``: errors and times of the operators, as Markdown tables.

Errors are the largest difference, of results and gradients, from those of a compiled mmcv. Times
are of the calls in a training step and a prediction of the demonstration, summed.
"""

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import partial
from unittest import mock

import mmcv.ops  # noqa: F401
import torch
from torch import Tensor

from benchmarks.timing import Budget, interleave
from mmeffvit.data.shapes import ShapesSpec
from mmeffvit.models.operators import backend, functions
from tests.configs.models import build_as_trained, load, num_classes, random_batch, train_step
from tests.models.operators.cases import CASES, RECORDED
from tests.models.operators.conftest import MODULES

BATCH = 4  # of each of the demonstration's two processes
FORMS = {'torchvision': backend.devices, 'plain PyTorch': tuple}
BUDGET = Budget(seconds=20, min_rounds=5, max_rounds=21)
Call = tuple[str, tuple, dict]


@contextmanager
def operators(module: object) -> Iterator[None]:
    """Let mmcv call the operators of a module, also where it is compiled."""
    with ExitStack() as stack:
        for name in MODULES:
            mmcv_module = sys.modules[f'mmcv.ops.{name}']
            stack.enter_context(mock.patch.object(mmcv_module, 'ext_module', module))
        yield


def errors(devices: Callable[[], tuple[str, ...]]) -> dict[str, float]:
    """The largest difference from a compiled mmcv, by operator."""
    compiled, found = json.loads(RECORDED.read_text()), {}
    with mock.patch.object(backend, 'devices', devices), operators(functions):
        for name, run in CASES.items():
            for result, recorded in zip(run(), compiled[name], strict=True):
                result = torch.as_tensor(result).double().flatten()
                error = (result - torch.tensor(recorded, dtype=torch.float64)).abs().max().item()
                operator = name.partition(',')[0]
                found[operator] = max(error, found.get(operator, 0.0))
    return found


class Recorder:
    """The operators, which keep the arguments of their calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __getattr__(self, name: str) -> Callable:
        return partial(self.call, name)

    def call(self, name: str, *args: object, **options: object) -> object:
        self.calls.append((name, deepcopy(detached(args)), detached(options)))
        return getattr(functions, name)(*args, **options)


def detached(values: tuple | dict) -> tuple | dict:
    if isinstance(values, dict):
        return {key: detached((value,))[0] for key, value in values.items()}
    return tuple(value.detach() if isinstance(value, Tensor) else value for value in values)


def calls_of_the_demonstration() -> list[Call]:
    """The calls in a training step and a prediction of the demonstration, with random weights."""
    torch.manual_seed(0)
    model = build_as_trained(load('maskrcnn_swiftformer_xs_shapes'))
    batch = random_batch(num_classes(model), ShapesSpec().side, BATCH)
    recorder = Recorder()
    with operators(recorder):
        train_step(model, deepcopy(batch))
        with torch.no_grad():
            model.eval().test_step(batch)
    return recorder.calls


def run_all(calls: list[Call], devices: Callable[[], tuple[str, ...]]) -> None:
    with mock.patch.object(backend, 'devices', devices), torch.no_grad():
        for name, args, options in calls:
            getattr(functions, name)(*args, **options)


def run_torchvision_backward(calls: list[Call]) -> None:
    """On a CPU ours is never torchvision's."""
    for _, (grad, rois, _, _, target), options in calls:
        torch.ops.torchvision._roi_align_backward(
            grad, rois, options['spatial_scale'], options['aligned_height'],
            options['aligned_width'], *target.shape, options['sampling_ratio'], options['aligned'],
        )  # fmt: skip


def main() -> None:
    found = {form: errors(devices) for form, devices in FORMS.items()}
    print('| operator | ' + ' | '.join(f'error with {form}' for form in FORMS) + ' |')
    print('|---|---|---|')
    for operator in next(iter(found.values())):
        print(f'| {operator} | ' + ' | '.join(f'{e[operator]:.1e}' for e in found.values()) + ' |')
    calls = calls_of_the_demonstration()
    print('\n| operator | calls | torchvision | plain PyTorch | ratio |\n|---|---|---|---|---|')
    for name in dict.fromkeys(name for name, *_ in calls):
        own = [call for call in calls if call[0] == name]
        runs = {form: partial(run_all, own, devices) for form, devices in FORMS.items()}
        if name == 'roi_align_backward':
            runs['torchvision'] = partial(run_torchvision_backward, own)
        times = [1000 * statistics.median(t) for t in interleave(runs, BUDGET).values()]
        cells = ' | '.join(f'{milliseconds:.1f} ms' for milliseconds in times)
        print(f'| `{name}` | {len(own)} | {cells} | {times[1] / times[0]:.2f} |', flush=True)


if __name__ == '__main__':
    torch.set_num_threads(1)
    main()
