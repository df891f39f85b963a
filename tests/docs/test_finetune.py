"""The pages on custom data: their commands, and the configs that they show."""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmeffvit.data.faults import Findings
from mmeffvit.data.records import DataSet, Picture
from mmeffvit.data.write import Split
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.folder.base import Base, Start
from mmeffvit.train.folder.recipe import Overrides, make_recipe
from mmeffvit.train.folder.write_config import write_config
from mmeffvit.utils.files import resource_dir
from tests.data.sets import drawn, write_yolo
from tests.docs.pages import TUTORIALS, Workplace, code_blocks, page_commands

NAMES = ('bolt', 'nut', 'screw', 'washer')
DETECTOR = TUTORIALS / 'finetune_detector.md'
SEGMENTOR = TUTORIALS / 'finetune_segmentor.md'
RECIPES = TUTORIALS.parent / 'recipes.md'
FORMATS = {DETECTOR: 'YOLO', SEGMENTOR: 'images and label maps'}
MODELS = {DETECTOR: 'rtmdet_swiftformer_xs', SEGMENTOR: 'segformer_swiftformer_xs_ade20k'}
FROM_SCRATCH = 'model.backbone.init_cfg=None'  # tests have no network
SHORT = ('--epochs', '1', '--image-size', '64', '--weights', 'none', '--nproc-per-node', '1')
LOGGED = 'default_hooks.logger.interval=1'


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Workplace:
    return Workplace(tmp_path, monkeypatch)


def write_label_maps(folder: Path) -> None:
    """Generated shapes with label maps, as on the page."""
    for split, count in (('train', 4), ('val', 2)):
        images, masks = folder / 'images' / split, folder / 'masks' / split
        images.mkdir(parents=True)
        masks.mkdir(parents=True)
        for number in range(count):
            picture, instances = drawn(split == 'val', number)
            cv2.imwrite(str(images / f'{split}{number}.jpg'), picture)
            label = np.zeros(picture.shape[:2], np.uint8)
            for kind, mask in instances:
                label[mask] = kind + 1
            cv2.imwrite(str(masks / f'{split}{number}.png'), label)
    (folder / 'classes.txt').write_text('\n'.join(('background', *NAMES)))


def written_config(page: Path, out: Path) -> str:
    """What the command of a page writes for 400 images of 640 x 480 on two cores."""
    train = next(command for command in page_commands(page) if command[0] == 'train')
    size, epochs = (int(train[train.index(name) + 1]) for name in ('--image-size', '--epochs'))
    data_root, folder = (Path('/home/me', train[index]) for index in (1, 3))
    base = Base.of(MODELS[page])
    classes = ['background', *NAMES] if base.is_segmentor else list(NAMES)
    maps = dict(enumerate(range(len(classes)))) if base.is_segmentor else {}
    pictures = [Picture(data_root / f'{i}.jpg', size=(480, 640)) for i in range(400)]
    data = DataSet(FORMATS[page], data_root, classes, {'train': pictures}, Findings(), maps)
    splits = {
        name: Split(folder / 'index' / f'{name}.json', data_root / 'images' / name, count)
        for name, count in (('train', 400), ('val', 100))
    }
    overrides = Overrides(image_size=size, epochs=epochs, processes=2)
    start = Start('ImageNet weights of the backbone', keeps_backbone=True)
    recipe = make_recipe(base, pictures, overrides)
    write_config(out, base, data, splits, recipe, overrides, start)
    return out.read_text()


def shortened(config: str) -> str:
    """Without pipelines, and without what depends on this machine."""
    config = config.replace(str(resource_dir('configs')), '/home/me/mmeffvit/configs')
    config = re.sub(r'num_workers=\d+', 'num_workers=0', config)
    pipelines = re.compile(r'^(# sizes of .*?\n).*?(?=^processes)', re.MULTILINE | re.DOTALL)
    return pipelines.sub(
        r'\1# train_pipeline = [...], test_pipeline = [...], ...\n\n', config
    ).strip()


@pytest.mark.parametrize('page', [DETECTOR, SEGMENTOR])
def test_the_config_of_a_page_is_what_its_command_writes(page, tmp_path):
    (shown,) = code_blocks(page, 'python')
    assert shown.strip() == shortened(written_config(page, tmp_path / 'config.py'))


def run_page(page: Path, workplace: Workplace, renamed: dict[str, str]) -> None:
    for command in page_commands(page):
        options = SHORT if command[0] == 'train' else ()
        workplace.run([*command, *options], renamed=renamed)


@pytest.mark.slow
@pytest.mark.variant
def test_the_page_on_detectors_runs_unchanged(workplace, capsys):
    root = write_yolo(workplace.folder / 'data' / 'bolts', 8, 4)
    labels = (root / 'data.yaml').read_text()
    for old, new in zip(('circle', 'square', 'triangle', 'star'), NAMES, strict=True):
        labels = labels.replace(old, new)
    (root / 'data.yaml').write_text(labels)
    run_page(DETECTOR, workplace, {'epoch_60.pth': 'epoch_1.pth'})
    assert 'not made' not in capsys.readouterr().out
    work_dir = workplace.folder / 'work_dirs' / 'bolts'
    weights = read_content(work_dir / 'run' / 'best_coco_bbox_mAP_epoch_1.pth')
    assert tuple(weights['meta']['dataset_meta']['classes']) == NAMES
    assert len(list((work_dir / 'pictures').glob('*'))) == 4
    assert (work_dir / 'result' / 'errors' / 'bbox' / 'errors.png').is_file()
    assert (work_dir / 'bolts.xml').is_file()
    assert any((work_dir / 'browse').iterdir())
    tensorboard, curves = page_commands(RECIPES)[-2:]
    workplace.run(curves)
    assert (work_dir / 'curves.png').is_file()
    workplace.run([*tensorboard, '--no-check'], (FROM_SCRATCH, LOGGED, 'work_dir=watched'))
    assert_curves_of_tensorboard(workplace.folder / 'watched')


def assert_curves_of_tensorboard(work_dir: Path) -> None:
    events = pytest.importorskip('tensorboard.backend.event_processing.event_accumulator')
    (path,) = work_dir.rglob('events.out.tfevents.*')
    curves = events.EventAccumulator(str(path)).Reload()
    assert {'loss', 'loss_cls', 'loss_bbox', 'lr'} <= set(curves.Tags()['scalars'])
    losses = curves.Scalars('loss')
    assert [event.step for event in losses] == [1, 2, 3, 4]  # 8 images, batch size 2
    assert all(np.isfinite(event.value) and event.value > 0 for event in losses)
    assert any('bbox_mAP' in tag for tag in curves.Tags()['scalars'])


@pytest.mark.slow
@pytest.mark.variant
def test_the_page_on_segmentors_runs_unchanged(workplace, capsys):
    write_label_maps(workplace.folder / 'data' / 'parts')
    run_page(SEGMENTOR, workplace, {'iter_3000.pth': 'iter_2.pth'})
    assert 'not made' not in capsys.readouterr().out
    work_dir = workplace.folder / 'work_dirs' / 'parts'
    weights = read_content(work_dir / 'run' / 'best_mIoU_iter_2.pth')
    assert tuple(weights['meta']['dataset_meta']['classes']) == ('background', *NAMES)
    assert weights['state_dict']['decode_head.conv_seg.weight'].shape[0] == 5
    assert len(list((work_dir / 'pictures').glob('*'))) == 2


def test_the_line_for_both_backends_fits_the_config_of_the_page(workplace):
    from mmengine.config import Config
    from mmengine.registry import VISBACKENDS

    (line,) = (code for code in code_blocks(RECIPES, 'python') if 'vis_backends' in code)
    path = workplace.folder / 'mine' / 'bolts.py'
    path.write_text(written_config(DETECTOR, path) + line)
    backends = Config.fromfile(path).visualizer.vis_backends
    built = [VISBACKENDS.get(backend.type).__name__ for backend in backends]
    assert built == ['LocalVisBackend', 'TensorboardVisBackend']
