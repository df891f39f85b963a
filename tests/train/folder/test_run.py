"""One command: from a folder in YOLO form to a config, a checkpoint, pictures and a file."""

import json
import re
import shlex
from itertools import starmap
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import pytest
import torch
from mmengine.config import Config

from mmeffvit.cli import finish
from mmeffvit.config.load import load_config, option_text
from mmeffvit.data.shapes import ShapesSpec
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.folder import fit_batch
from mmeffvit.train.folder.options import FinetuneOptions
from mmeffvit.utils.files import locked
from tests.conftest import ROOT, output_of, rejected, run_command_here, run_python, succeeded
from tests.data.sets import files_in, polygon_line, write_maps, write_yolo

SEGFORMER = 'segformer_swiftformer_xs_ade20k'
FAST = ('--epochs', 1, '--weights', 'none', '--nproc-per-node', 1)
SPEC = ShapesSpec(side=64, max_objects=2)
SHALLOW = dict(_delete_=True, channels=(128, 224, 320), depths=(1, 1, 1), attended=(0, 48, 68))
SMALL = {'model.backbone.arch': SHALLOW}  # SHViT-S1 with fewer blocks, which exports faster


@pytest.mark.slow
def test_a_folder_becomes_a_model_in_one_command(tmp_path, monkeypatch):
    root = write_yolo(tmp_path / 'bolts', 12, 4, spec=SPEC)
    before = files_in(root)
    work_dir = tmp_path / 'work'
    (tmp_path / 'here').mkdir()
    monkeypatch.chdir(tmp_path / 'here')
    options = ('--export', 'none', *FAST, '--batch', 'auto')
    printed = output_of('train', root, '--work-dir', work_dir, *options)
    assert files_in(root) == before
    assert not list((tmp_path / 'here').iterdir())
    assert f'{root}: YOLO, 4 classes' in printed
    for row in ('box AP', 'best', 'pictures', 'curves', 'per class', 'errors'):
        assert f'\n  {row} ' in printed
    assert 'not made' not in printed
    result = work_dir / 'result'
    sheet = cv2.imread(str(result / 'contact_sheet.png'))
    assert sheet.shape == (28 + 2 * (22 + 384 + 6) + 34, 2 * (2 * 384 + 6), 3)  # and a legend
    for name in ('curves.png', 'per_class.md', 'errors/bbox/errors.md'):
        assert (result / name).stat().st_size
    said = [line for line in printed.splitlines() if line.startswith('--batch auto: ')]
    assert re.fullmatch(r'--batch auto: 2 images take 0\.\d GiB of \d.* GiB', *said), said
    assert 'from scratch: all layers and norms are trained; the learning rate of the' in printed
    for command in re.findall(r'^  mmeffvit (.*)$', printed, re.MULTILINE):
        # for any size it takes a quarter minute
        more = ('--shape', 64, 64) if command.startswith('export') else ()
        output_of(*shlex.split(command), *more)
    assert len(list((work_dir / 'predictions').iterdir())) == 4
    # no best one is saved where so young a model finds nothing, which depends on the seed
    assert (work_dir / 'run2' / 'epoch_1.pth').is_file()
    session = onnxruntime.InferenceSession(str(result / 'model.onnx'))
    image = cv2.imread(str(root / 'images/val/val_0.png'))[..., ::-1].transpose(2, 0, 1)[None]
    boxes = session.run(['boxes'], {'images': np.ascontiguousarray(image, np.float32)})[0]
    assert boxes.shape[-1] == 4
    config = work_dir / 'rtmdet_swiftformer_xs.py'
    monkeypatch.setattr(fit_batch, 'free_memory', lambda: -1)
    with pytest.raises(UserError, match='two images do not fit'):
        fit_batch.largest_batch(config, 4, 1)
    assert load_config(config).model.backbone.init_cfg is None
    message = rejected('train', root, '--work-dir', work_dir, *FAST)
    assert 'has a run already: continue it with --resume' in message
    output_of('check', config)


@pytest.mark.parametrize(
    'name', ['data.json', 'options.json', 'index/train.json', 'result/model.onnx']
)
def test_files_of_others_in_a_work_dir_are_not_overwritten(name, tmp_path):
    root = write_yolo(tmp_path / 'bolts', 4, 2, spec=SPEC)
    mine = tmp_path / 'work' / name
    mine.parent.mkdir(parents=True)
    mine.write_text('{"data": "a", "mine": 1}')
    before = files_in(mine.parents[1])
    message = rejected('train', root, '--work-dir', tmp_path / 'work', *FAST)
    assert f'work/{name.split("/")[0]} is not of a training run, which would overwrite' in message
    assert {
        path: text for path, text in files_in(mine.parents[1]).items() if path in before
    } == before


def test_a_config_that_was_edited_before_the_first_checkpoint_is_kept(tmp_path, monkeypatch):
    root = write_yolo(tmp_path / 'bolts', 4, 2, spec=SPEC)
    options = ('train', root, '--work-dir', tmp_path / 'work', *FAST)
    config = tmp_path / 'work' / 'rtmdet_swiftformer_xs.py'
    monkeypatch.setattr('mmeffvit.train.folder.run.train', interrupt)
    for _ in range(2):  # without changes, it is written again
        assert run_command_here(*options).returncode == 130
    config.write_text(text := config.read_text() + '# mine\n')
    assert 'was edited' in rejected(*options)
    assert run_command_here(*options, '--resume').returncode == 130
    assert config.read_text() == text


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_a_work_dir_in_use_is_left_as_it_is(shapes, tmp_path):
    busy = tmp_path / 'busy'
    config = ROOT / 'configs' / 'maskrcnn_swiftformer_xs_shapes.py'
    targets = (shapes,), (config, '--no-check', '--cfg-options', f'data_root={shapes}/')
    with locked(busy, 'a training run'):
        before = files_in(busy)
        for target in targets:
            message = rejected('train', '--work-dir', busy, *target)
            assert 'is in use by a training run' in message
        assert files_in(busy) == before


# what `make demo` does not install
WITHOUT = """
import sys
from importlib.machinery import PathFinder

find = PathFinder.find_spec
hidden = 'onnx onnxruntime onnxscript onnx_ir openvino nncf safetensors timm'.split()
PathFinder.find_spec = classmethod(
    lambda cls, name, *more: None if name.split('.')[0] in hidden else find(name, *more)
)
from mmeffvit.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.variant
def test_a_folder_becomes_a_model_without_the_packages_of_exporters(tmp_path):
    root = write_yolo(tmp_path / 'bolts', 4, 2, spec=SPEC)
    printed = succeeded(
        run_python('-c', WITHOUT, 'train', root, '--work-dir', tmp_path / 'work', *FAST)
    )
    assert 'nothing will be exported: Writing .onnx needs onnx, which is not installed' in printed
    assert 'to predict on images' in printed
    assert 'trained from random weights' in printed.partition(' on bolts')[2]  # at the end
    assert re.search(r'^epoch 1/1  loss \S+  \S+ images/s  ', printed, re.MULTILINE)
    # what others say is in the file
    assert not re.search(r'mmengine - |Warning|creating index', printed)
    assert 'creating index' in (tmp_path / 'work' / 'run' / 'console.log').read_text()


def test_a_job_that_fails_in_any_way_leaves_the_summary(capsys):
    def export() -> None:
        raise RuntimeError('no kernel\nfor this operator')

    assert finish.outcome_of(export).startswith('not made: ')
    assert 'no kernel' in finish.outcome_of(export)
    assert 'Traceback' in capsys.readouterr().err
    assert finish.outcome_of(lambda: 3) == '3'


def test_the_next_commands_fit_the_run(tmp_path):
    folder, data = tmp_path / 'result', Config(dict(processes=2))
    arguments = (tmp_path / 'a.py', data, Path('val'), Path('train'))
    said = finish.next_commands(*arguments, [folder / 'model.onnx'])
    assert said.endswith(f'/a.py --work-dir {tmp_path}/run2 --nproc-per-node 2')
    assert f'predict {tmp_path} val ' in said
    assert f'quantize {folder}/model.onnx train {folder}/int8.onnx' in said  # calibrates on others
    # as after a resumed run with `--export none`, where files have the weights of the one before
    folder.mkdir()
    for name in ('model.onnx', 'int8.onnx'):
        (folder / name).touch()
    said = finish.next_commands(*arguments, [])
    assert f'export {tmp_path} {folder}/model.onnx' in said
    assert 'int8' not in said


@pytest.mark.slow
def test_the_largest_batch_is_that_of_the_changed_config(tmp_path):
    root = write_yolo(tmp_path / 'bolts', 8, 3, spec=SPEC)
    run = run_command_here(
        'train', root, '--work-dir', tmp_path / 'work', *FAST, '--batch', 'auto',
        '--cfg-options', 'model.backbone.type=mmeffvit.Nothing',
    )  # fmt: skip
    assert 'Nothing' in run.stdout
    assert '--batch auto: ' not in run.stdout  # it has tried no other model


@pytest.mark.slow
@pytest.mark.variant
def test_a_run_is_resumed_and_its_weights_start_one_that_stops_early(tmp_path):
    root = write_yolo(tmp_path / 'bolts', 8, 3, spec=SPEC)
    arguments = ('train', root, '--work-dir', tmp_path / 'work', '--export', 'none', *FAST)
    assert 'no run to resume' in rejected(*arguments, '--resume')
    output_of(*arguments)
    other = run_command_here(*arguments, '--resume', '--image-size', 64)
    assert '--image-size is 64, and the run in' in other.stdout
    printed = output_of(*arguments, '--resume', '--epochs', 2)
    assert '2 epochs instead of 1' in printed
    bare = tmp_path / 'bare.pth'
    torch.save(read_content(tmp_path / 'work' / 'run' / 'epoch_2.pth')['state_dict'], bare)
    changes = ('custom_hooks.1.switch_epoch=1', 'custom_hooks.2.min_delta=2.0')
    printed = output_of(
        'train', root, '--work-dir', tmp_path / 'next', '--export', 'none', '--nproc-per-node', 1,
        '--epochs', 9, '--patience', 1, '--weights', bare, '--cfg-options', *changes,
    )  # fmt: skip
    assert 'CachedMosaic' in (tmp_path / 'next' / 'rtmdet_swiftformer_xs.py').read_text()
    run = tmp_path / 'next' / 'run'
    assert 'Switch pipeline now!' in (run / 'console.log').read_text()
    assert (run / 'epoch_2.pth').is_file()
    assert not (run / 'epoch_3.pth').exists()  # the second is no better than the first by 2
    assert re.search(r'\n  best +.*/best_coco_bbox_mAP_epoch_2\.pth\n', printed)


def check_segmentor(said: str, name: str, work_dir: Path) -> None:
    assert f'{name} on parts' in said
    assert re.search(r'\n  mIoU +[\d.]+ % on the val split\n', said)
    assert 'not made' not in said
    assert '| background |' in (work_dir / 'result/per_class.md').read_text()


@pytest.mark.slow
@pytest.mark.variant
def test_a_segmentor_learns_from_polygons(tmp_path):
    root = write_yolo(tmp_path / 'parts', 6, 3, spec=SPEC, line=polygon_line)
    printed = output_of(
        'train', root, '--work-dir', tmp_path / 'work', '--model', SEGFORMER, *FAST,
        '--image-size', 64, '--export', 'none',
    )  # fmt: skip
    check_segmentor(printed, SEGFORMER, tmp_path / 'work')


@pytest.mark.slow
def test_a_segmentor_learns_from_label_maps_and_a_failed_int8_step_is_one_line(tmp_path, log):
    root, work_dir = tmp_path / 'parts', tmp_path / 'work'
    write_maps(root)
    printed = output_of(
        'train', root, '--work-dir', work_dir, *FAST, '--image-size', 64, '--export', '.onnx',
        '--int8', '--cfg-options', *starmap(option_text, SMALL.items()),
    )  # fmt: skip
    check_segmentor(printed, 'segformer_shvit_s1_lightpan_ade20k', work_dir)  # the default
    assert re.search(r'int8.onnx: .*; mIoU [\d.]+ % on the val split\n', printed)
    # what is done before is shown before
    assert printed.index('model.onnx\n') < printed.index('  quantizing ')
    result = work_dir / 'result'
    (result / 'int8.onnx').unlink()
    (config,) = work_dir.glob('*.py')
    options = FinetuneOptions(work_dir, SMALL, export=['.onnx'], int8=True)
    (name, _), *_ = json.loads((work_dir / 'index/train.json').read_text())
    lost = root / 'images' / name
    kept = lost.read_bytes()
    lost.write_bytes(b'')  # the end of the same run, without an image to calibrate on
    log.clear()
    metrics = finish.finish(config, options, None)
    (line,) = [line for line in log.text.splitlines() if 'not made: ' in line]
    assert '  int8 ' in line
    assert str(lost) in line
    assert [path.name for path in result.glob('*.onnx')] == ['model.onnx']
    assert f'{metrics["mIoU"]:.1f} %' in log.text
    assert 'to predict on images' in log.text[log.text.index(line) :]
    lost.write_bytes(kept)
    (command,) = re.findall(r'^  mmeffvit (quantize .*)$', log.text, re.MULTILINE)
    output_of(*shlex.split(command), '--allow-slower')
    assert (result / 'int8.onnx').is_file()


@pytest.mark.slow
@pytest.mark.variant
def test_instance_masks_are_trained_on_polygons(tmp_path):
    root = write_yolo(tmp_path / 'parts', 6, 3, spec=SPEC, line=polygon_line)
    printed = output_of(
        'train', root, '--work-dir', tmp_path / 'work', '--model', 'maskrcnn_swiftformer_xs',
        *FAST, '--image-size', 64, '--class-balanced', '--grad-accum-steps', 2, '--export', 'none',
    )  # fmt: skip
    assert '\n  mask AP ' in printed
    assert (tmp_path / 'work' / 'result' / 'errors' / 'segm' / 'errors.md').is_file()


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (('data', '--model', 'rtmdet_swiftformer'), 'did you mean rtmdet_swiftformer_xs'),
        (('data', '--launcher', 'pytorch'), '--launcher does nothing: --nproc-per-node N starts'),
        (('data', '--batch', 'large'), "'large' is neither a number nor auto"),
        (('data', '--amp'), '--amp needs an accelerator'),
        (('data', '--batch', 3, '--nproc-per-node', 2), 'cannot share a batch of 3 equally'),
        (('data', '--freeze', 2, '--weights', 'none'), '--freeze needs pretrained weights'),
        (('data', '--export', '.engine'), 'model.engine'),
        (('data', '--export', 'none', '--int8'), '--int8 quantizes the .onnx file'),
        (('data', '--image-size', 100), '--image-size is 100'),
        (('data', '--model', 'maskrcnn_swiftformer_xs'), 'objects without a mask'),
        (('data', '--model', SEGFORMER), 'a segmentor needs masks'),
        (('nowhere',), "'nowhere' does not exist; `mmeffvit models` lists"),
        (('rtmdet_swiftformer_xs', '--epochs', 3), 'for which --epochs does nothing'),
    ],
)
def test_mistakes_end_in_one_message_before_training(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_yolo(tmp_path / 'data')
    assert words in rejected('train', *arguments)
    assert not list(tmp_path.glob('work_dirs/*/run'))
