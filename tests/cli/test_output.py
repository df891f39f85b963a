"""Messages are printed by commands, not by libraries."""

import subprocess
import sys

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
