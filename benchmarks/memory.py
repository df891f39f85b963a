"""Peak memory of the tensors allocated in a step."""

import gc
import json
import tempfile
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

HOW = (
    'the peak of what torch allocated during the step: activations, gradients and workspaces of '
    'operators, without what was allocated before (parameters, images); on a CPU from the '
    "allocations recorded by the profiler, on a GPU from the allocator's counters. Memory that "
    'oneDNN allocates inside its kernels is not included.'
)


def peak_bytes(step: Callable[[], object], device: str) -> int:
    """Run ``step`` once, and return the peak of its allocated bytes."""
    gc.collect()
    if device == 'cuda':
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    return max(accumulate(allocations(profiler), initial=0))


def allocations(profiler: profile) -> list[int]:
    """Bytes of every allocation, negative for releases, in chronological order."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, 'trace.json')
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())['traceEvents']
    memory = [event for event in events if event['name'] == '[memory]']
    memory.sort(key=lambda event: event['ts'])
    return [event['args']['Bytes'] for event in memory]
