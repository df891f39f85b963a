"""Files timed each in a process of its own, in turns of many runs, as the profiler does.

In one process, or with single runs in turns, a file would find the caches and the memory as others
have left them, unlike in an application.
"""

import statistics
from collections.abc import Mapping

from mmeffvit.deploy.profiling.rounds import time_in_rounds
from mmeffvit.deploy.profiling.worker import Job

from .timing import Samples


def time_files(jobs: Mapping[str, Job], seconds: float) -> Samples:
    """Twentieths of the distribution of times, by file.

    Args:
        jobs: The files, all with the same number of threads.
        seconds: Time for each.

    Raises:
        RuntimeError: If one does not run.
    """
    found, failures = time_in_rounds(jobs, seconds)
    if failures:
        raise RuntimeError(f'files do not run: {failures}')
    return {name: statistics.quantiles(each.seconds, n=20) for name, each in found.items()}
