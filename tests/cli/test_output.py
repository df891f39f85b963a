"""Messages are printed by commands, not by libraries."""

import os
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


def test_what_all_processes_say_is_printed_once():
    second = {**os.environ, 'RANK': '1'}
    run = subprocess.run([sys.executable, '-c', CODE], capture_output=True, text=True, env=second)
    assert (run.stdout, run.stderr) == ('', 'look\n')


def test_an_error_has_the_lines_that_its_raiser_gave_it(capsys):
    with pytest.raises(SystemExit) as caught, exit_with_message():
        raise UserError('a\nb has 2 errors: ', '  1. c\nd', '  2. e')
    assert caught.value.code == EXIT_CODE
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [r'error: a\nb has 2 errors: ', r'  1. c\nd', '  2. e']


LOGGING = """
import logging, sys
from types import SimpleNamespace
from mmeffvit.cli.arguments import new_parser, run_command

log = logging.getLogger('run')
log.propagate = False
log.addHandler(logging.FileHandler('/dev/full'))
command = SimpleNamespace(
    make_parser=lambda: new_parser('log', 'log'), run=lambda: log.warning('lost')
)
for arguments in ([], ['--debug']):
    print('with', arguments, file=sys.stderr, flush=True)
    run_command(command, arguments, 'mmeffvit log')
"""


def test_a_log_on_a_full_disk_prints_no_traceback_unless_asked():
    run = subprocess.run([sys.executable, '-c', LOGGING], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    silent, asked = run.stderr.split("with ['--debug']")
    assert 'No space left' not in silent
    assert 'No space left' in asked
