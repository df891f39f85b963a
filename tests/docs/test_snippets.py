"""Every snippet of the documentation: commands are parsed, configs read, scripts run.

Each test has a folder of its own, with the files that a page assumes. Whole tutorials and the
snippets for apps have modules of their own.
"""

import ast
import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.registry import MODELS
from torch import nn

import mmeffvit
from mmeffvit.cli.main import COMMANDS, import_command, split_command
from mmeffvit.config.load import load_config, require_scope
from mmeffvit.models import SwiftFormer
from mmeffvit.train.checks.config import check_config, faults_in
from tests.conftest import ROOT, require_or_skip
from tests.docs.pages import code_blocks
from tests.variants import check_all

PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]
# pages whose blocks of Python run in other modules
ELSEWHERE = {
    'add_a_backbone.md', 'finetune_detector.md', 'finetune_segmentor.md',
    'coming-from-openmmlab.md', 'data.md',
}  # fmt: skip
TINY = dict(channels=(8, 8, 8, 16), depths=(1, 1, 1, 1))
SIZE = (256, 320)  # of model.onnx, as a page resizes its picture
RELEASED = re.compile(r"(?:Predictor|get_model)\('(\w+_\w+)'")
OPTIONAL = ('ai_edge_litert', 'executorch')  # runtimes that are not installed everywhere
# words of the pages that stand for a file or a folder
WORDS = {'CONFIG': 'a.py', 'CONFIG_OR_BACKBONE': 'a.py', 'CHECKPOINT': 'a.pth', 'IMAGES': 'images'}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands_of(page: Path) -> Iterator[str]:
    """The commands of `mmeffvit` in blocks, and those in the text that say on what."""
    text = page.read_text()
    blocks = '\n'.join(code_blocks(page, 'bash', indented=True)).replace('\\\n', ' ')
    yield from re.findall(r'^ *mmeffvit (.+)$', blocks, re.MULTILINE)
    outside = re.sub(r'^ *```.*?^ *```', '', text, flags=re.DOTALL | re.MULTILINE)
    for found in re.findall(r'`mmeffvit ([\w-]+ [^-`\n][^`\n]*)`', outside):
        if found not in COMMANDS:
            yield found.replace('\\|', '|')


def check_command(page_and_command: tuple[str, str]) -> None:
    _, command = page_and_command
    if '...' in command or re.match(r'\S+ [A-Z_]+(_OR_\w+)? \[', command):
        command = command.replace(' ...', '')  # the form of a command, with optional parts
    words = shlex.split(command.replace('[', '').replace(']', ''), comments=True)
    name, arguments = split_command(words)
    arguments = [WORDS.get(argument, argument) for argument in arguments]
    assert name in COMMANDS
    parser = import_command(name).make_parser()
    parser.allow_abbrev = False  # `--out` of a page must not pass as `--out-dir`
    message = io.StringIO()
    with redirect_stderr(message), suppress(SystemExit):
        parser.parse_args(arguments)
    assert not message.getvalue()


def test_every_command_is_parsed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # parsers check that outputs can be written
    (tmp_path / 'images').mkdir()
    check_all(sorted({(name_of(page), each) for page in PAGES for each in commands_of(page)}),
              check_command)  # fmt: skip


def python_blocks(page: Path) -> list[str]:
    return [] if page.name in ELSEWHERE else code_blocks(page, 'python')


def is_config(code: str) -> bool:
    """Whether a block is part of a config: it assigns values, and calls nothing but dict."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    names = {call.func.id if isinstance(call.func, ast.Name) else '' for call in calls}
    return 'import ' not in code and names <= {'dict'}


CONFIGS = [(code, page) for page in PAGES for code in python_blocks(page) if is_config(code)]


def dicts_in(code: str) -> Iterator[dict]:
    """Every ``dict(type='mmeffvit.NAME', ...)`` of a block."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and any(word.arg == 'type' for word in node.keywords):
            value = eval(compile(ast.Expression(node), 'page', 'eval'), dict(dict=dict))
            if isinstance(value['type'], str):
                yield value


@pytest.mark.parametrize(('code', 'page'), CONFIGS, ids=[name_of(page) for _, page in CONFIGS])
def test_a_config_is_read_in_any_folder_has_no_fault_and_its_backbones_are_built(
    code, page, tmp_path
):
    path = tmp_path / 'mine.py'
    # a file among ours
    path.write_text(code.replace("'_base_/", f"'{ROOT / 'configs' / '_base_'}/"))
    config = load_config(path)
    if '$MMEFFVIT_CONFIGS' in code:
        if config.default_scope == 'mmpretrain':
            require_or_skip('mmpretrain')
        require_scope(config)
        assert faults_in(check_config(config)) == []
    for settings in dicts_in(code):
        kind = settings['type'].removeprefix('mmeffvit.')
        if hasattr(mmeffvit.models, kind):
            options = {k: v for k, v in settings.items() if k not in ('_delete_', 'init_cfg')}
            backbone = MODELS.build({**options, 'type': f'mmeffvit.{kind}'})
            assert len(backbone.channels) == len(backbone.strides) > 0


# arguments of a backbone in the text, and the configs that they are for
ARGUMENTS = re.compile(
    r'`((?:attention|downsampling|class_tokens|partial_ratio|resize_matrix)=[^`.]+[^`]*'
    r"|dict\(type='\w+', [a-z_]+=[^.`]+\))`"
)
OVERRIDDEN = (
    'classifier_deit_s_mobile', 'semfpn_deit_t_ade20k', 'classifier_shvit_s3',
    'classifier_swiftformer_l1', 'classifier_mobilevitv2_100', 'classifier_pvtv2_b0_mobile',
    'classifier_efficientformerv2_s2_mobile_300e',
)  # fmt: skip
OVERRIDES = sorted(
    {
        (name_of(page), found if '=' in found.partition('(')[0] else f'attention={found}')
        for page in PAGES
        for found in ARGUMENTS.findall(page.read_text())
    }
)


@pytest.mark.parametrize(('page', 'override'), OVERRIDES)
def test_an_override_in_the_text_works_in_a_config_that_inherits_from_ours(
    page, override, tmp_path
):
    own = [name for name in OVERRIDDEN if f'_{Path(page).stem}_' in name] or OVERRIDDEN
    errors = []
    for name in own:
        base = ROOT / 'configs' / f'{name}.py'
        (tmp_path / f'{name}.py').write_text(
            f'_base_ = [{str(base)!r}]\nmodel = dict(backbone=dict({override}))\n'
        )
        settings = load_config(tmp_path / f'{name}.py').model.backbone
        settings.pop('init_cfg', None)
        try:
            with torch.device('meta'):
                MODELS.build(settings)
        except (TypeError, ValueError) as error:
            errors.append(error)
    assert len(errors) < len(own), errors


SCRIPTS = [(page, [code for code in python_blocks(page) if not is_config(code)]) for page in PAGES]
SCRIPTS = [(page, codes) for page, codes in SCRIPTS if codes]
LONG = ('docs/deploy.md', 'docs/phones.md', 'docs/export.md')


@pytest.fixture(scope='module')
def model() -> nn.Module:
    from tests.deploy.models import tiny

    return tiny('rtmdet_swiftformer_xs')


@pytest.fixture(scope='module')
def files(model, tmp_path_factory) -> Path:
    """A folder with what pages assume: a config, a checkpoint, exported files and pictures."""
    from mmeffvit.deploy.formats.onnx.write import ExportOptions, export_graph
    from mmeffvit.deploy.graphs import make_graph
    from mmeffvit.deploy.graphs.metadata import config_metadata
    from tests.deploy.models import CLASSES, save_run

    folder = tmp_path_factory.mktemp('page')
    picture = np.random.default_rng(0).integers(0, 256, (64, 80, 3)).astype(np.uint8)
    for name in ('photo.jpg', 'photos/a.jpg'):
        (folder / name).parent.mkdir(exist_ok=True)
        cv2.imwrite(str(folder / name), picture)
    config, checkpoint = save_run('rtmdet_swiftformer_xs', folder)
    config = config.rename(folder / 'CONFIG.py')
    checkpoint.rename(folder / 'CHECKPOINT.pth')
    metadata = config_metadata(load_config(config), model, dict(classes=CLASSES))
    export_graph(make_graph(model), folder / 'model.onnx', ExportOptions(SIZE, 1), metadata)
    return folder


def write_others(codes: str, model: nn.Module) -> None:
    """Write what a page reads into the current folder: model.xml, and model.pte if possible."""
    if "'model.xml'" in codes:
        import openvino

        openvino.save_model(openvino.convert_model('model.onnx'), 'model.xml')
    if "load_program('model.pte')" in codes and find_spec('executorch'):
        from mmeffvit.deploy.formats.onnx.write import ExportOptions
        from mmeffvit.deploy.graphs import make_graph
        from mmeffvit.deploy.write import write

        write(make_graph(model), 'model.pte', ExportOptions(shape=(320, 320)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ('page', 'codes'),
    [
        # these export models, as README does
        pytest.param(*row, marks=pytest.mark.variant if name_of(row[0]) in LONG else ())
        for row in SCRIPTS
    ],
    ids=[name_of(page) for page, _ in SCRIPTS],
)
def test_the_scripts_of_a_page_run(page, codes, files, model, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setattr(sys, 'argv', ['script.py', 'model.onnx', 'photo.jpg'])
    backbone, teacher = (SwiftFormer(TINY).eval() for _ in range(2))
    namespace = dict(
        nn=nn, np=np, cv2=cv2, mmeffvit=mmeffvit, backbone=backbone, teacher=teacher,
        images=torch.rand(1, 3, *SIZE), logits=np.random.rand(8, 8, 3), width=16, height=16,
    )  # fmt: skip
    write_others('\n'.join(codes), model)
    for code in codes:
        released = RELEASED.findall(code)
        if released:  # these need a download: tests/released loads files of the same layouts
            assert set(released) <= set(mmeffvit.list_models(pretrained=True))
            ast.parse(code)
            continue
        # compiling a whole detector would take minutes
        namespace['model'] = backbone if 'fuse(' in code else model
        try:
            exec(compile(code, name_of(page), 'exec'), namespace)
        except ModuleNotFoundError as error:
            if error.name.partition('.')[0] not in OPTIONAL:
                raise
