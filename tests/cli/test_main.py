"""``mmeffvit COMMAND``: one name for every tool, with help, examples and completion."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from mmeffvit.cli.main import COMMANDS, import_command, main, split_command
from tests.conftest import run_command, run_python, succeeded

PROGRAM = Path(sys.executable).with_name('mmeffvit')


@pytest.mark.parametrize('name', COMMANDS)
def test_every_command_has_help_with_an_example_that_it_takes(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([*name.split(), '--help'])
    assert not end.value.code
    printed = capsys.readouterr().out
    assert f'usage: mmeffvit {name}' in printed
    program, *words = shlex.split(printed.split('example:')[1])
    assert program == 'mmeffvit'
    command, arguments = split_command(words)
    assert command == name
    import_command(command).make_parser().parse_args(arguments)


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        ([], 'COMMAND --help'),
        (['trian'], 'did you mean train?'),
        (['x'], 'choose one of train, test'),
        (['analyze'], 'choose one of analyze attention, analyze curves, analyze errors'),
        (['analyze', 'error', 'found.pkl'], 'choose one of analyze attention'),
        (['analyze_logs'], 'here: `mmeffvit analyze curves`'),
        (['train', 'a.py', '--resume-from', 'b.pth'], '--resume CHECKPOINT'),
        (['train', 'a.py', '--gpu-ids', '0'], "OpenMMLab's spelling; here: CUDA_VISIBLE"),
        (['predict', 'a.py', 'b.jpg', '--pred-score-thr', '0.3'], '--score-thr SCORE'),
        (['train'], 'usage: mmeffvit train'),
        (['train', 'no.py'], "config 'no.py' does not exist"),
        (['check', 'no.py'], "config 'no.py' does not exist"),
        (['test', 'ssdlite'], 'did you mean ssdlite_efficientformerv2_s0, ssdlite_eff'),
        (['models', 'no_such_model'], "no model matches 'no_such_model'"),
        (['val', 'data=coco.yaml'], 'here: `mmeffvit test`'),
        (['train', 'data', '--imgsz', '640'], '--image-size PIXELS'),
        (['train', 'data=coco.yaml'], 'mmeffvit train FOLDER'),
        (['train', 'data', 'epochs=50'], "'epochs=50' is Ultralytics' spelling; here: --epochs 50"),
        (['train', 'data', 'amp=True'], 'here: --amp\n'),
        (['train', 'data', 'amp=False'], 'here: --no-amp\n'),
        (['train', 'data', 'resume=True'], 'here: --resume\n'),
        (['train', 'data', 'device=0'], 'here: --device cuda:0\n'),
        (['train', 'data', 'device=0,1'], 'and --nproc-per-node 2'),
        (['predict', 'a.py', 'b.jpg', 'device=0,1'], 'here: --device cuda:0\n'),
        (['train', 'data', 'batch=-1'], 'here: --batch auto\n'),
        (['export', 'model=best.pt', 'format=onnx'], 'the model is the first argument'),
        (['predict', 'a.onnx', 'b.jpg', '--conf=0.5'], '--score-thr SCORE'),
        (['dist_train.sh', 'a.py', '8'], 'here: `mmeffvit train`'),
        (['train', 'a.py', '--output-dir', 'b'], '--work-dir FOLDER'),
        (['suite', '--output-dir', 'b'], '--work-dir FOLDER'),
        (['test', 'a.py', '--conf', '0.3'], 'model.test_cfg.score_thr=SCORE'),
        (['distill', 'a', 'b', 'c', '--data', 'd'], '--labeled DATA'),
        (
            ['quantize', 'a.onnx', 'b', 'c.onnx', '--batch', '4'],
            'unrecognized arguments: --batch 4',
        ),
        (['export', 'a', 'b.onnx', '--name', 'c'], 'unrecognized arguments: --name c'),
        (['download', 'rtmdet*', '--out-dir', 'b'], 'no weights are released for rtmdet*'),
        (['download', 'no_such*', '--out-dir', 'b'], "no model 'no_such*'"),
        (['test', 'a', '--seed', '1', 'b.pth', 'c'], 'unrecognized arguments: c'),
    ],
)
def test_invalid_calls_end_in_one_message(arguments, words, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ('arguments', 'expected'),
    [
        ('test a --tta b.pth', dict(config='a', checkpoint='b.pth')),
        ('test --tta a -- -b.pth', dict(config='a', checkpoint='-b.pth')),
        ('export a b.pth --half c.onnx', dict(checkpoint='b.pth', out=Path('c.onnx'))),
        ('export a --half c.onnx', dict(checkpoint=None, out=Path('c.onnx'))),
        ('predict a b.jpg --batch 1 c.jpg', dict(inputs=['b.jpg', 'c.jpg'], batch_size=1)),
        ('distill a b c.pth --seed 1 d', dict(teacher='b', images=['c.pth', 'd'])),
    ],
)
def test_arguments_stand_before_and_after_options(arguments, expected):
    name, *words = arguments.split()
    values = vars(import_command(name).make_parser().parse_args(words))
    assert values.items() >= expected.items()


@pytest.mark.parametrize(
    ('arguments', 'shown', 'hidden'),
    [
        (
            ['ssdlite'],
            ['ssdlite_mobilevitv2_050', 'box AP 21.2', ' 21 ', 'ssdlite_shvit_s1'],
            ['rtmdet'],
        ),
        (['ssdlite', '--released'], ['ssdlite_mobilevitv2_050'], ['ssdlite_shvit_s1']),
        (['*_s1', '--task', 'classification'], ['shvit_s1', 'Top 1 Accuracy 72.8'], ['ssd']),
    ],
)
def test_models_are_listed_with_their_accuracy(arguments, shown, hidden, capsys):
    main(['models', *arguments])
    text = capsys.readouterr().out
    assert all(word in text for word in shown), text
    assert not any(word in text for word in hidden), text


def test_the_module_is_the_command():
    assert 'mmengine' in succeeded(run_command('doctor'))


@pytest.mark.parametrize(
    ('line', 'choices'),
    [
        pytest.param('mmeffvit train --auto', ['--auto-scale-lr '], marks=pytest.mark.variant),
        ('mmeffvit analyze errors --ar', ['--areas ']),
    ],
)
def test_the_shell_completes_commands_and_options(line, choices, tmp_path):
    env = {
        **os.environ, '_ARGCOMPLETE': '1', '_ARGCOMPLETE_IFS': '\n', 'COMP_LINE': line,
        'COMP_POINT': str(len(line)), '_ARGCOMPLETE_STDOUT_FILENAME': str(tmp_path / 'choices'),
    }  # fmt: skip
    run_python(PROGRAM, env=env)
    assert (tmp_path / 'choices').read_text().split('\n') == choices


def test_a_command_without_a_package_says_what_to_install():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['mmengine', 'torch']))\n"
        "from mmeffvit.cli.main import main; main(['doctor'])"
    )
    result = run_python('-c', code)
    assert result.returncode == 2
    assert '`mmeffvit doctor` needs mmengine, which is not installed' in result.stdout
    assert 'Traceback' not in result.stdout
