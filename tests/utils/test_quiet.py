"""What other packages print and log is suppressed for a block, and no longer."""

import logging
from collections import OrderedDict
from unittest import mock

import pytest
from mmengine.logging import MMLogger, print_log

from mmeffvit.utils.quiet import quiet


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
