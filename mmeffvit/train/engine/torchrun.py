"""``python -m mmeffvit.train.engine.torchrun``: torchrun without tracebacks and logs of its own.

Its processes print their errors, and the parent an interruption.
"""

import logging
import os

from mmeffvit.utils.interrupts import exit_at_once, handled


def main() -> None:
    with handled(exit_at_once):
        from torch.distributed.elastic.multiprocessing.api import SignalException
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.run import parse_args, run

    logging.disable(logging.CRITICAL)
    try:
        run(parse_args(None))
    except ChildFailedError:
        os._exit(1)
    except SignalException as error:  # the processes have ended
        os._exit(128 + error.sigval)


if __name__ == '__main__':
    main()
