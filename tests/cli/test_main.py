"""``mmeffvit COMMAND``: one name for every tool, with help, examples and completion."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from mmeffvit.cli.main import COMMANDS, import_command, main
from tests.conftest import ROOT, run_python

PROGRAM = Path(sys.executable).with_name('mmeffvit')


@pytest.mark.parametrize('name', COMMANDS)
def test_every_command_has_help_with_an_example_that_it_takes(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([name, '--help'])
    assert not end.value.code
    said = capsys.readouterr().out
    assert f'usage: mmeffvit {name}' in said
    program, command, *arguments = shlex.split(said.split('example:')[1])
    assert program == 'mmeffvit'
    import_command(command).make_parser().parse_args(arguments)


def test_every_tool_is_a_command():
    modules = {module for module, _ in COMMANDS.values()} | {'check_config', 'check_dataset'}
    tools = {
        line.split('.')[2].split()[0]
        for path in (ROOT / 'tools').glob('*.py')
        for line in path.read_text().splitlines()
        if line.strip().startswith('from mmeffvit.cli.')
    }
    assert tools == modules - {'check', 'doctor'}


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        ([], 'COMMAND --help'),
        (['trian'], "did you mean 'train'?"),
        (['x'], 'choose one of train, test'),
        (['train'], 'usage: mmeffvit train'),
        (['train', 'no.py'], "config 'no.py' does not exist"),
        (['check', 'no.py'], "config 'no.py' does not exist"),
    ],
)
def test_mistakes_end_in_one_message(arguments, words, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_the_module_is_the_command():
    run = run_python('-m', 'mmeffvit', 'doctor')
    assert run.returncode == 0
    assert 'mmengine' in run.stdout


@pytest.mark.parametrize(
    ('line', 'choices'),
    [('mmeffvit tr', ['train ']), ('mmeffvit train --auto', ['--auto-scale-lr '])],
)
def test_the_shell_completes_commands_and_options(line, choices, tmp_path):
    env = {
        **os.environ, '_ARGCOMPLETE': '1', '_ARGCOMPLETE_IFS': '\n', 'COMP_LINE': line,
        'COMP_POINT': str(len(line)), '_ARGCOMPLETE_STDOUT_FILENAME': str(tmp_path / 'choices'),
    }  # fmt: skip
    run_python(PROGRAM, env=env)
    assert (tmp_path / 'choices').read_text().split('\n') == choices


def test_a_command_without_torch_says_what_to_install():
    code = (
        "import sys; sys.modules['mmengine'] = sys.modules['torch'] = None\n"
        "from mmeffvit.cli.main import main; main(['doctor'])"
    )
    result = run_python('-c', code)
    assert result.returncode == 2
    assert '`mmeffvit doctor` needs mmengine, which is not installed' in result.stdout
    assert 'Traceback' not in result.stdout
