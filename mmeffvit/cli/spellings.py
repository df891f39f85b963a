"""Arguments of Ultralytics and of OpenMMLab's tools, answered with ours."""

import re
from argparse import Action, ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

COMMANDS = {
    'val': 'test', 'checks': 'doctor', 'benchmark': 'profile', 'image_demo': 'predict',
    'browse_dataset': 'browse', 'get_flops': 'complexity', 'analyze_logs': 'analyze curves',
    'analyze_results': 'analyze per-class', 'coco_error_analysis': 'analyze errors',
    'confusion_matrix': 'analyze errors', 'dist_train.sh': 'train', 'dist_test.sh': 'test',
    'slurm_train.sh': 'train', 'slurm_test.sh': 'test',
}  # fmt: skip
TASKS = ('detect', 'segment', 'classify', 'pose', 'obb', 'yolo')
TEST_SCORE = '--cfg-options model.test_cfg.score_thr=SCORE'
GPUS = 'CUDA_VISIBLE_DEVICES=0,1 before the command, and --nproc-per-node 2'
NO_WINDOW = 'no window is opened, and files are always written: leave it out'
# names of arguments, the commands that they are given to, or '' for any other, and the answer
ULTRALYTICS = (
    ('imgsz', 'train distill', '--image-size PIXELS'),
    ('imgsz', 'export quantize profile', '--shape HEIGHT WIDTH'),
    ('imgsz', '', '--cfg-options, on the Resize of the test pipeline'),
    ('data', 'train', 'the dataset is the first argument: mmeffvit train FOLDER'),
    ('data', 'distill', '--labeled DATA'),
    ('data', '', '--cfg-options data_root=FOLDER'),
    ('model', '', 'the model is the first argument, without a name'),
    ('weights', '', 'the checkpoint follows the config, without a name'),
    ('source', '', 'images follow the model, without a name'),
    ('conf', 'test', TEST_SCORE),
    ('conf', '', '--score-thr SCORE'),
    ('iou', '', '--cfg-options model.test_cfg.nms.iou_threshold=IOU'),
    ('project name', 'predict', '--out-dir FOLDER'),
    ('project name', '', '--work-dir FOLDER'),
    ('batch', '', '--cfg-options test_dataloader.batch_size=N'),
    ('workers', '', '--cfg-options test_dataloader.num_workers=N'),
    ('format', '', 'the suffix of the output file selects the format, such as model.onnx'),
    ('int8', '', '`mmeffvit quantize model.onnx IMAGES OUT`, after the export'),
    ('nbs', 'train', '--grad-accum-steps N'),
    ('save_json', 'predict', '--out FILE.json'),
    ('save_json', '', '--out FILE'),
    ('lr0', 'train distill', '--lr RATE'),
)
OPENMMLAB = (
    ('options', '', '--cfg-options KEY=VALUE'),
    ('resume_from', 'train', '--resume CHECKPOINT'),
    ('auto_resume', 'train', '--resume'),
    ('load_from', 'train', '--cfg-options load_from=FILE'),
    ('no_validate', 'train', '--cfg-options train_cfg.val_interval=EPOCHS'),
    ('gpus gpu_ids gpu_id', 'train', GPUS),
    ('gpu_id', '', 'CUDA_VISIBLE_DEVICES=N before the command'),
    ('eval', 'test', 'test_evaluator in the config sets the metrics'),
    ('pred_score_thr', 'predict', '--score-thr SCORE'),
    ('show_score_thr', 'test', TEST_SCORE),
    ('batch_size', 'train predict', '--batch N'),
    ('output_dir', 'train distill suite', '--work-dir FOLDER'),
    ('output_dir', 'test', '--show-dir FOLDER'),
    ('output_dir', 'export', 'the output file is the last argument, without a name'),
    ('output_dir out_file', '', '--out-dir FOLDER'),
    ('fuse_conv_bn', '', 'exported files are fused already: `mmeffvit export`'),
    ('no_save_pred', 'predict', 'leave out --out FILE.json'),
    ('show not_show wait_time show_interval', '', NO_WINDOW),
)


def command_of(name: str, rest: Sequence[str]) -> str | None:
    """Our command for one of Ultralytics, which may follow a task: `detect train`."""
    if name in TASKS:
        name = next((each for each in rest if each not in TASKS), 'predict')
        return COMMANDS.get(name, name if name in ('train', 'predict', 'export') else 'predict')
    return COMMANDS.get(name)


def check_spelling(parser: ArgumentParser, arguments: Sequence[str]) -> None:
    """Exit with our name of an option that Ultralytics or a tool of OpenMMLab spells differently.

    ``--imgsz 640`` and ``imgsz=640`` are recognized, unless they are options of ours or files.
    """
    command = parser.prog.split()[-1]
    options = {option: a for a in parser._actions for option in a.option_strings}
    for argument in arguments:
        if argument == '--cfg-options':  # its values are keys of the config
            return
        match = re.fullmatch(r'(--)?([\w-]+)(?:=(.*))?', argument)
        if not match or not (match[1] or match[3] is not None) or Path(argument).exists():
            continue
        ours, name = f'--{match[2].replace("_", "-")}', match[2].replace('-', '_')
        if found := [option for option in options if option.startswith(ours)]:
            if match[1]:
                continue
            answer = with_value(found[0], options, match[3])
            parser.error(f"{argument!r} is Ultralytics' spelling; here: {answer}")
        for whose, table in (("Ultralytics'", ULTRALYTICS), ("OpenMMLab's", OPENMMLAB)):
            answer = answer_in(table, name, command)
            if answer and set(re.findall('--[a-z-]+', answer)) <= {*options}:
                parser.error(f'{argument!r} is {whose} spelling; here: {answer}')


def with_value(option: str, options: Mapping[str, Action], value: str) -> str:
    """Our option with a value of Ultralytics, which has True and False for flags."""
    if value in ('False', 'None'):
        negative = f'--no-{option[2:]}'
        return negative if negative in options else 'leave it out'
    if options[option].nargs == 0 or value == 'True':
        return option
    if option == '--device' and value[:1].isdigit():
        several = ',' in value and '--nproc-per-node' in options
        return GPUS if several else f'--device cuda:{value.partition(",")[0]}'
    return f'{option} {"auto" if (option, value) == ("--batch", "-1") else value}'


def answer_in(table: Iterable[tuple[str, str, str]], name: str, command: str) -> str:
    """The first answer to an argument of a command; empty if there is none."""
    for names, commands, answer in table:
        if name in names.split() and (not commands or command in commands.split()):
            return answer
    return ''
