"""The pages on custom data: their configs and their commands, unchanged."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from pycocotools.coco import COCO

from mmeffvit.checkpoints.read import load_torch_file
from tests.conftest import ROOT
from tests.docs.pages import TUTORIALS, Workplace, code_blocks, lines_of_code, tool_commands

NAMES = ('bolt', 'nut', 'screw', 'washer')
FROM_SCRATCH = 'model.backbone.init_cfg=None'  # tests have no network
DETECTOR = TUTORIALS / 'finetune_detector.md'
SEGMENTOR = TUTORIALS / 'finetune_segmentor.md'
WATCH = TUTORIALS / 'watch_a_run.md'
SHORT = {  # the only values that differ from the pages
    DETECTOR: ('train_cfg.max_epochs=1', 'train_cfg.val_interval=1'),
    SEGMENTOR: (
        'train_cfg.max_iters=1',
        'train_cfg.val_interval=1',
        'train_dataloader.batch_size=2',
    ),
}
SHORT[WATCH] = SHORT[DETECTOR]
LOGGED = 'default_hooks.logger.interval=1'
SAVED = 'default_hooks.checkpoint.interval=1'


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Workplace:
    return Workplace(tmp_path, monkeypatch)


def write_coco_folder(shapes: Path, folder: Path) -> None:
    """The generated shapes under the names of the page."""
    (folder / 'annotations').mkdir(parents=True)
    for split in ('train', 'val'):
        (folder / split).symlink_to(shapes / f'{split}2017')
        content = json.loads((shapes / f'annotations/instances_{split}2017.json').read_text())
        for category, name in zip(content['categories'], NAMES, strict=True):
            category['name'] = name
        (folder / 'annotations' / f'{split}.json').write_text(json.dumps(content))


def write_label_maps(shapes: Path, folder: Path) -> None:
    """The generated shapes as JPEG, and their masks as label maps with classes from 1."""
    for split in ('train', 'val'):
        images, labels = folder / 'images' / split, folder / 'labels' / split
        images.mkdir(parents=True)
        labels.mkdir(parents=True)
        coco = COCO(shapes / f'annotations/instances_{split}2017.json')
        for number, record in list(coco.imgs.items())[: 4 if split == 'train' else 2]:
            name = Path(record['file_name'])
            picture = cv2.imread(str(shapes / f'{split}2017' / name))
            cv2.imwrite(str(images / f'{name.stem}.jpg'), picture)
            label = np.zeros(picture.shape[:2], np.uint8)
            for annotation in coco.imgToAnns[number]:
                label[coco.annToMask(annotation) == 1] = annotation['category_id']
            cv2.imwrite(str(labels / f'{name.stem}.png'), label)


def config_of(page: Path) -> str:
    (config,) = code_blocks(page, 'python')
    assert lines_of_code(config) < 20
    return config


def run_page(page: Path, workplace: Workplace, renamed: dict[str, str], *options: str) -> None:
    commands = tool_commands(page)
    assert 'tools/train.py' in [command[0] for command in commands]
    for command in commands:
        if command[0] == 'tools/train.py':
            # the first command of the page has already checked the config
            workplace.run([*command, '--no-check'], (FROM_SCRATCH, *SHORT[page], *options), renamed)
        else:
            workplace.run(command, renamed=renamed)


@pytest.mark.slow
def test_the_page_on_detectors_runs_unchanged(shapes, workplace, capsys):
    (workplace.folder / 'mine' / 'bolts.py').write_text(config_of(DETECTOR))
    write_coco_folder(shapes, workplace.folder / 'data' / 'bolts')
    run_page(DETECTOR, workplace, {'epoch_30.pth': 'epoch_1.pth'}, LOGGED)
    printed = capsys.readouterr().out
    assert 'no fault' in printed
    assert 'nothing is broken' in printed
    assert '| bolt |' in printed  # the table of errors
    work_dir = workplace.folder / 'work_dirs' / 'bolts'
    weights = load_torch_file(work_dir / 'epoch_1.pth')
    assert tuple(weights['meta']['dataset_meta']['classes']) == NAMES
    assert len(list((work_dir / 'pictures').glob('*'))) == 4
    assert (work_dir / 'errors' / 'bbox' / 'errors.png').is_file()
    assert any((work_dir / 'browse').iterdir())
    (tensorboard, curves) = tool_commands(WATCH)
    workplace.run(curves)
    assert (work_dir / 'curves.png').is_file()
    workplace.run(
        [*tensorboard, '--no-check'], (FROM_SCRATCH, *SHORT[WATCH], LOGGED, 'work_dir=watched')
    )
    assert_curves_of_tensorboard(workplace.folder / 'watched')


def assert_curves_of_tensorboard(work_dir: Path) -> None:
    events = pytest.importorskip('tensorboard.backend.event_processing.event_accumulator')
    (path,) = work_dir.rglob('events.out.tfevents.*')
    curves = events.EventAccumulator(str(path)).Reload()
    assert {'loss', 'loss_cls', 'loss_bbox', 'lr'} <= set(curves.Tags()['scalars'])
    losses = curves.Scalars('loss')
    assert [event.step for event in losses] == [1, 2]  # 12 images, batch size 8
    assert all(np.isfinite(event.value) and event.value > 0 for event in losses)
    assert any('bbox_mAP' in tag for tag in curves.Tags()['scalars'])


@pytest.mark.slow
def test_the_page_on_segmentors_runs_unchanged(shapes, workplace, capsys, monkeypatch):
    (workplace.folder / 'mine' / 'parts.py').write_text(config_of(SEGMENTOR))
    write_label_maps(shapes, workplace.folder / 'data' / 'parts')
    # as with an installed package, whose configs are elsewhere
    (workplace.folder / 'configs').unlink()
    monkeypatch.setenv('MMEFFVIT_CONFIGS', str(ROOT / 'configs'))
    run_page(SEGMENTOR, workplace, {'iter_4000.pth': 'iter_1.pth'}, LOGGED, SAVED)
    printed = capsys.readouterr().out
    assert 'no fault' in printed
    assert 'nothing is broken' in printed
    work_dir = workplace.folder / 'work_dirs' / 'parts'
    weights = load_torch_file(work_dir / 'iter_1.pth')
    assert tuple(weights['meta']['dataset_meta']['classes']) == ('background', *NAMES)
    assert weights['state_dict']['decode_head.conv_seg.weight'].shape[0] == 5
    assert len(list((work_dir / 'pictures').glob('*'))) == 2


def test_the_line_for_both_backends_fits_the_config_of_the_page(shapes, workplace):
    from mmengine.config import Config
    from mmengine.registry import VISBACKENDS

    (line,) = code_blocks(WATCH, 'python')
    path = workplace.folder / 'mine' / 'bolts.py'
    path.write_text(config_of(DETECTOR) + line)
    backends = Config.fromfile(path).visualizer.vis_backends
    built = [VISBACKENDS.get(backend.type).__name__ for backend in backends]
    assert built == ['LocalVisBackend', 'TensorboardVisBackend']
