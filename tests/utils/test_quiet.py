"""What other packages print and log is suppressed for a block, and no longer."""

import logging
from collections import OrderedDict
from unittest import mock

import pytest
from mmengine.logging import MMLogger, print_log

from mmeffvit.utils.quiet import quiet
from tests.conftest import run_python


@pytest.mark.parametrize('name', ['mmengine', 'of a run'])
def test_a_logger_of_mmengine_is_silent_in_the_block_and_not_after_it(name, capfd):
    # those of earlier tests write to where these did
    with mock.patch.object(MMLogger, '_instance_dict', OrderedDict()):
        MMLogger.get_instance(name).setLevel(logging.INFO)
        for word in ('before', 'after'):
            print_log(word, 'current')
            with quiet():
                print_log('inside', 'current')
                print_log('failure', 'current', logging.ERROR)
    printed = ''.join(capfd.readouterr())
    assert 'inside' not in printed
    assert printed.count('before') == printed.count('after') == 1
    assert printed.count('failure') == 2


IMPORTS = """
import logging, sys
from concurrent.futures import ThreadPoolExecutor
from mmengine.logging import MMLogger
from mmengine.visualization import Visualizer
from mmeffvit.utils.optional import require

MMLogger.get_instance('a run')
try:
    Visualizer.get_current_instance()  # its lock stays taken by this thread
except RuntimeError:
    print('none')
with ThreadPoolExecutor(4) as pool:
    modules = list(pool.map(lambda _: require('pycocotools.mask', 'A test'), range(200)))
print(len(set(modules)), logging.root.manager.disable, sys.stdout is sys.__stdout__)
"""


def test_threads_that_import_a_package_neither_wait_forever_nor_leave_the_process_silent():
    done = run_python('-c', IMPORTS, timeout=120)
    assert done.stdout.splitlines()[-2:] == ['none', '1 0 True'], done.stdout
