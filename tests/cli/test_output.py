"""Messages are printed by commands, not by libraries."""

import subprocess
import sys

import pytest

from mmeffvit.cli.output import EXIT_CODE, exit_with_message
from mmeffvit.errors import UserError

CODE = """
from mmeffvit.cli.output import shown
from mmeffvit.utils.messages import logger

logger.info('unseen')
with shown():
    logger.info('100 % done')
    logger.warning('look')
    with shown():
        logger.info('once')
logger.info('unseen')
"""


def test_messages_are_silent_until_they_are_shown():
    run = subprocess.run([sys.executable, '-c', CODE], capture_output=True, text=True, check=True)
    assert run.stdout == '100 % done\nonce\n'
    assert run.stderr == 'look\n'


def test_an_error_has_the_lines_that_its_raiser_gave_it(capsys):
    with pytest.raises(SystemExit) as caught, exit_with_message():
        raise UserError('a\nb has 2 errors: ', '  1. c\nd', '  2. e')
    assert caught.value.code == EXIT_CODE
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [r'error: a\nb has 2 errors: ', r'  1. c\nd', '  2. e']
