"""Ultralytics' arguments, answered with ours."""

import re
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

COMMANDS = {'val': 'test', 'checks': 'doctor', 'benchmark': 'profile'}
TASKS = ('detect', 'segment', 'classify', 'pose', 'obb', 'yolo')
FIRST = 'the model is the first argument, without a name'
TEST_DATA = '--cfg-options data_root=FOLDER'
ANSWERS: dict[str, dict[str, str]] = {  # by argument, then by command; '' is any other
    'imgsz': {
        'train': '--image-size PIXELS',
        'export': '--shape HEIGHT WIDTH',
        'profile': '--shape HEIGHT WIDTH',
        '': '--cfg-options, on the Resize of the test pipeline',
    },
    'data': {'train': 'the dataset is the first argument: mmeffvit train FOLDER', '': TEST_DATA},
    'model': {'': FIRST},
    'weights': {'': 'the checkpoint follows the config, without a name'},
    'source': {'': 'images follow the model, without a name'},
    'conf': {'': '--score-thr SCORE'},
    'iou': {'': '--cfg-options model.test_cfg.nms.iou_threshold=IOU'},
    'project': {'predict': '--out-dir FOLDER', '': '--work-dir FOLDER'},
    'name': {'predict': '--out-dir FOLDER', '': '--work-dir FOLDER'},
    'batch': {'': '--cfg-options test_dataloader.batch_size=N'},
    'workers': {'': '--cfg-options train_dataloader.num_workers=N'},
    'device': {'train': 'CUDA_VISIBLE_DEVICES=0,1 before the command, and --processes 2'},
    'format': {'': 'the suffix of the output file selects the format, such as model.onnx'},
    'int8': {'': '`mmeffvit quantize model.onnx IMAGES OUT`, after the export'},
    'nbs': {'train': '--accumulate N'},
    'save_json': {'predict': '--out FILE.json', '': '--out FILE'},
    'lr0': {'': '--cfg-options optim_wrapper.optimizer.lr=RATE'},
}


def command_of(name: str, rest: Sequence[str]) -> str | None:
    """Our command for one of Ultralytics, which may follow a task: `detect train`."""
    if name in TASKS:
        name = next((each for each in rest if each not in TASKS), 'predict')
        return COMMANDS.get(name, name if name in ('train', 'predict', 'export') else 'predict')
    return COMMANDS.get(name)


def check_spelling(parser: ArgumentParser, arguments: Sequence[str]) -> None:
    """Exit with our name of an option that was given as in Ultralytics.

    ``--imgsz 640`` and ``imgsz=640`` are recognized, unless they are options of ours or files.
    """
    command = parser.prog.split()[-1]
    options = [option for action in parser._actions for option in action.option_strings]
    for argument in arguments:
        if argument == '--cfg-options':  # its values are keys of the config
            return
        match = re.fullmatch(r'(--)?(\w+)(?:=(.*))?', argument)
        if not match or not (match[1] or match[3] is not None) or Path(argument).exists():
            continue
        ours = f'--{match[2].replace("_", "-")}'
        if any(option.startswith(ours) for option in options):
            if match[1]:
                continue
            answer = f'{ours} {match[3]}'
        else:
            answers = ANSWERS.get(match[2], {})
            answer = answers.get(command, answers.get('', ''))
        if answer:
            parser.error(f"{argument!r} is Ultralytics' spelling; here: {answer}")
