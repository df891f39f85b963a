"""What other packages print and log is suppressed for a block, and no longer."""

import logging
from collections import OrderedDict
from unittest import mock

import pytest

from mmeffvit.utils.quiet import quiet


@pytest.mark.parametrize('name', ['mmengine', 'of a run'])
def test_a_logger_of_mmengine_is_silent_in_the_block_and_not_after_it(name, capfd):
    mmengine_logging = pytest.importorskip('mmengine.logging')
    # those of earlier tests write to where these did
    with mock.patch.object(mmengine_logging.MMLogger, '_instance_dict', OrderedDict()):
        mmengine_logging.MMLogger.get_instance(name).setLevel(logging.INFO)
        for word in ('before', 'after'):
            mmengine_logging.print_log(word, 'current')
            with quiet():
                mmengine_logging.print_log('inside', 'current')
                mmengine_logging.print_log('failure', 'current', logging.ERROR)
    printed = ''.join(capfd.readouterr())
    assert 'inside' not in printed
    assert printed.count('before') == printed.count('after') == 1
    assert printed.count('failure') == 2
