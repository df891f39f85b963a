"""Names of classes, folders and images are data: they run, read and replace nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import yaml
from mmengine.config import Config

from mmeffvit.config.datasets import datasets_of
from mmeffvit.config.load import open_config
from mmeffvit.data.prepare import PrepareOptions, prepare
from mmeffvit.data.shapes import CLASSES
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.folder.base import Base, Start
from mmeffvit.train.folder.recipe import Overrides, make_recipe
from mmeffvit.train.folder.write_config import write_config
from tests.conftest import output_of
from tests.data.sets import (
    edit_json,
    files_in,
    polygon_line,
    write_maps,
    write_roboflow,
    write_voc,
    write_yolo,
)
from tests.variants import sampled

RUNS = '{{$X:"(\\\',open("PWNED","w"))#|Z}}'  # leaves its string as mmengine substitutes it
LEAKS = '{{$MMEFFVIT_SECRET:x}}'
RENAMED = '{{fileDirname}}'
NAMES = (RUNS, LEAKS, RENAMED, '\'"""; {0} %s $x^$ [b]')
DETECTOR, SEGMENTOR = 'rtmdet_swiftformer_xs', 'segformer_swiftformer_xs_ade20k'


def in_yaml(root: Path, renamed: dict[str, str]) -> None:
    content = yaml.safe_load((root / 'data.yaml').read_text())
    content['names'] = list(renamed.values())
    (root / 'data.yaml').write_text(yaml.safe_dump(content))


def in_json(root: Path, renamed: dict[str, str]) -> None:
    def rename(content: dict) -> None:
        for category in content['categories']:
            category['name'] = renamed.get(category['name'], category['name'])

    for path in root.rglob('*.json'):
        edit_json(path, rename)


def in_xml(root: Path, renamed: dict[str, str]) -> None:
    for path in root.rglob('*.xml'):
        text = path.read_text()
        for old, new in renamed.items():
            text = text.replace(f'<name>{old}<', f'<name>{new.replace("<", "&lt;")}<')
        path.write_text(text)


def in_table(root: Path, renamed: dict[str, str]) -> None:
    (root / 'classes.txt').write_text('\n'.join(['ground', *renamed.values()]))


FORMATS: dict[str, tuple[str, Callable[[Path], Path], Callable]] = {
    'YOLO': (DETECTOR, lambda root: write_yolo(root, 8, 4), in_yaml),
    'COCO': (DETECTOR, write_roboflow, in_json),
    'VOC': (DETECTOR, write_voc, in_xml),
    'classes.txt': (SEGMENTOR, lambda root: write_maps(root, table='classes.txt'), in_table),
    'polygons': (SEGMENTOR, lambda root: write_yolo(root, line=polygon_line), in_yaml),
}


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The folder of the test, where an attack would leave its mark, and a secret to leak."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('MMEFFVIT_SECRET', 'hunter2')
    return tmp_path


@pytest.mark.parametrize('folder', sampled([RUNS, LEAKS, '"""\nopen("PWNED","w")'], [RUNS]))
@pytest.mark.parametrize('kind', FORMATS)
def test_hostile_names_stay_names_in_every_format(kind, folder, here):
    model, write, rename = FORMATS[kind]
    root = write(here / folder)
    rename(root, dict(zip(CLASSES, NAMES, strict=True)))
    work = here / f'work {folder}'
    base = Base.of(model)
    data, splits = prepare(root, work / 'index', PrepareOptions(for_segmentor=base.is_segmentor))
    assert set(NAMES) <= set(data.classes)
    path = work / f'{model}.py'
    recipe = make_recipe(base, data.splits['train'], Overrides())
    write_config(path, base, data, splits, recipe, Overrides(), Start(RUNS, checkpoint=RUNS))
    config = open_config(path)
    config.dump(here / 'dumped.py')
    for read in (config, Config.fromfile(here / 'dumped.py')):
        assert set(NAMES) <= set(read.classes)
        assert read.data_root == f'{root}/'
        assert read.work_dir == f'{work}/run/'
        assert read.load_from == RUNS
        for settings in (*datasets_of(read, 'train'), *datasets_of(read, 'val')):
            assert Path(settings['ann_file']).is_file()
            assert settings['metainfo']['classes'] == tuple(read.classes)
    assert not list(here.rglob('PWNED'))
    assert 'hunter2' not in path.read_text() + (here / 'dumped.py').read_text()


@pytest.mark.slow
@pytest.mark.variant
def test_hostile_names_survive_a_run_and_everything_that_follows(here):
    root = write_yolo(here / RUNS, 4, 2)
    in_yaml(root, dict(zip(CLASSES, NAMES, strict=True)))
    work = here / LEAKS
    options = ('--work-dir', work, '--weights', 'none', '--nproc-per-node', 1, '--image-size', 64)
    config = work / 'run' / f'{DETECTOR}.py'  # as mmengine dumped it
    best, model = work / 'run' / 'epoch_1.pth', work / 'result' / 'model.onnx'
    longer = ('--resume', best, '--no-check', '--cfg-options', 'train_cfg.max_epochs=2')
    image = root / 'images' / 'val' / 'val_0.png'
    for command in (
        ('train', root, *options, '--epochs', 1),
        ('train', config, *longer),
        ('test', config, best, '--work-dir', work / 'test'),
        ('predict', config, best, image, '--out-dir', work / 'found', '--score-thr', 0.02),
    ):
        printed = output_of(*command)
        assert not list(here.rglob('PWNED'))
        assert 'hunter2' not in printed
    meta = read_content(best)['meta']
    assert tuple(meta['dataset_meta']['classes']) == NAMES
    assert Config.fromstring(meta['cfg'], '.py').classes == NAMES
    described = {prop.key: prop.value for prop in onnx.load(model).metadata_props}
    assert json.loads(described['classes']) == list(NAMES)
    assert Config.fromstring(described['config_text'], '.py').classes == NAMES
    for path in work.rglob('*'):
        assert path.is_dir() or b'hunter2' not in path.read_bytes(), path


@pytest.mark.parametrize('label_maps', [True, False])
def test_no_file_outside_of_the_work_dir_is_written(label_maps, here):
    """A file name of COCO that leads out of the dataset is a fault, and names no output."""
    root = write_roboflow(here / 'data' / 'set')
    outside = here / 'Pictures' / 'holiday.png'
    outside.parent.mkdir()
    shutil.copy(root / 'train' / '0_png.rf.0a1b.png', outside)
    name = 'a/b/../../../../../Pictures/holiday.png'
    path = root / 'train' / '_annotations.coco.json'
    edit_json(path, lambda content: content['images'][0].update(file_name=name))
    before = files_in(here)
    options = PrepareOptions(for_segmentor=label_maps)
    with pytest.raises(UserError, match=r'images that are not in the folder of the dataset \(1\)'):
        prepare(root, here / 'work' / 'index', options)
    options = PrepareOptions(for_segmentor=label_maps, skip_broken=True)
    prepare(root, here / 'work' / 'index', options)
    after = files_in(here)
    assert {name: after[name] for name in before} == before
    assert all(name.startswith('work/index/') for name in after.keys() - before.keys())


@pytest.mark.parametrize(
    ('name', 'words'),
    [
        ('\udc80', 'records with a missing field'),
        ('a\nb', 'records with a missing field'),
        (' ', 'records with a missing field'),
        ('x' * 300, 'records with a missing field'),
        ('square', "duplicate class names: 'square'"),
    ],
)
def test_names_are_short_printable_text_and_differ(name, words, here, capfd):
    root = write_roboflow(here / 'data')
    in_json(root, {'circle': name})
    with pytest.raises(UserError, match=words):
        prepare(root, here / 'index', PrepareOptions())
    if name != 'square':  # the file and the place are named above
        place = f'_annotations.coco.json: name {name!r:.40} in categories, id 1'
        assert place in capfd.readouterr().out


@pytest.mark.parametrize('value', ['null', 'yes', '2024-01-01', '[a]', '1.5'])
def test_names_that_yaml_reads_as_something_else_are_rejected(value, here):
    root = write_yolo(here / 'data')
    text = (root / 'data.yaml').read_text().replace('0: circle', f'0: {value}')
    (root / 'data.yaml').write_text(text)
    with pytest.raises(UserError, match=r'`names` has .*which is not text: put it in quotes'):
        prepare(root, here / 'index', PrepareOptions())
