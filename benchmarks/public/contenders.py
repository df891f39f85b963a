"""Our models and the peers: the commands that train, evaluate and export each of them.

Ultralytics is AGPL-3.0: it is run by its own commands in an environment of its own, never imported.
"""

import csv
import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
from mmengine.config import Config
from mmengine.hub import get_config

from mmeffvit.errors import UserError
from mmeffvit.train.folder.base import Base
from mmeffvit.train.folder.options import FinetuneOptions
from mmeffvit.train.folder.recipe import Overrides
from mmeffvit.train.folder.run import default_model, write_run
from mmeffvit.utils.files import write_file

from ..machine import ROOT
from .data import Located, link_images, write_for_yolo

ULTRALYTICS = ('ultralytics==8.4.190', 'ultralytics-thop', 'polars', 'polars-runtime-32')
ONE_THREAD = dict(OMP_NUM_THREADS='1', MKL_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1')


@dataclass(frozen=True)
class Run:
    """A training run of a contender.

    Args:
        found: The dataset.
        folder: Folder of everything that the run writes.
        seed: Random seed.
        epochs: Length of the training.
    """

    found: Located
    folder: Path
    seed: int
    epochs: int

    @property
    def data(self) -> Path:
        """The dataset as published; label maps with 255 for void, which nothing in it says."""
        return self.found.root if self.found.about.task == 'detection' else self.yaml.parent

    @property
    def yaml(self) -> Path:
        """``data.yaml`` of the dataset in YOLO's layout; the run's own, since peers cache there."""
        written = self.folder / 'yolo' / 'data.yaml'
        return written if written.is_file() else write_for_yolo(self.found, written.parent)


@dataclass(frozen=True)
class Contender(ABC):
    """A model with its way of training.

    Args:
        name: Its name in the table.
        task: 'detection' or 'segmentation'.
        license: License of its code.
        model: Its name in its own project.
        minutes_per_epoch: CPU minutes of an epoch, as long as no run on this machine tells.
    """

    name: str
    task: str
    license: str
    model: str
    minutes_per_epoch: float
    multiple: ClassVar[int] = 1  # sides of images are padded to a multiple of it

    def padded(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Height and width of an image as its exported file gets it."""
        height, width = (-(-side // self.multiple) * self.multiple for side in shape)
        return height, width

    @abstractmethod
    def train(self, run: Run) -> list[str]:
        """The command that trains, or resumes an interrupted training."""

    @abstractmethod
    def curve(self, run: Run) -> list[float]:
        """The metric of each validation so far, in percent."""

    @abstractmethod
    def export(self, run: Run) -> dict[str, list[str]]:
        """The command that writes each file: 'float' and, where there is one, 'int8'."""

    @abstractmethod
    def file(self, run: Run, kind: str) -> Path:
        """The exported file of a kind."""

    @abstractmethod
    def predict(self, run: Run, kind: str, out: Path) -> list[str]:
        """The command that predicts the test split with the 'model' or an exported file."""

    def environment(self) -> Mapping[str, str]:
        """The environment variables of its commands."""
        return {**os.environ, **ONE_THREAD}


@dataclass(frozen=True)
class Ours(Contender):
    """Our default for a dataset, or a model of ours by name.

    Args:
        options: Further options of ``mmeffvit train``.
    """

    options: tuple[str, ...] = ()

    def train(self, run: Run) -> list[str]:
        work_dir = run.folder / 'work_dir'
        command = [
            *MMEFFVIT, 'train', str(run.data), '--weights', 'none', '--export', 'none',
            '--nproc-per-node', '1', '--epochs', str(run.epochs), '--seed', str(run.seed),
            '--work-dir', str(work_dir), *self.options,
        ]  # fmt: skip
        if self.model:
            command += ['--model', self.model]
        if run.found.about.task == 'detection':
            command += ['--image-size', str(run.found.about.image_size)]
        if any(work_dir.glob('run/*.pth')):
            command.append('--resume')
        return command

    def curve(self, run: Run) -> list[float]:
        values: dict[int, float] = {}
        for log in sorted(run.folder.glob('work_dir/run/*/vis_data/scalars.json')):
            for line in log.read_text().splitlines():
                row = json.loads(line)
                if 'coco/bbox_mAP' in row:
                    values[row['step']] = 100 * row['coco/bbox_mAP']
                elif 'mIoU' in row:
                    values[row['step']] = row['mIoU']
        return [values[step] for step in sorted(values)]

    def export(self, run: Run) -> dict[str, list[str]]:
        trained, written = self.trained(run), self.file(run, 'float')
        images = link_images(run.found.splits['train'], run.folder / 'calibration')
        quantize = [*MMEFFVIT, 'quantize', str(written), str(images), str(self.file(run, 'int8'))]
        return {
            'float': [*MMEFFVIT, 'export', *trained, str(written)],
            'int8': [*quantize, '--allow-slower', '--min-agreement', '0'],
        }

    def file(self, run: Run, kind: str) -> Path:
        return run.folder / f'{kind}.onnx'

    def trained(self, run: Run) -> list[str]:
        return [str(run.folder / 'work_dir')]

    def predict(self, run: Run, kind: str, out: Path) -> list[str]:
        model = self.trained(run) if kind == 'model' else [str(self.file(run, kind))]
        images = [str(sample.image) for sample in run.found.splits['test']]
        listing = out.with_suffix('.images')
        write_file(listing, json.dumps(images))
        return [sys.executable, '-m', 'benchmarks.public.predict', str(listing), str(out), *model]


MMEFFVIT = (sys.executable, '-m', 'mmeffvit')


@dataclass(frozen=True)
class OpenMMLab(Ours):
    """A model of mmdet or mmseg in our recipe: data, augmentation, optimizer and schedule are ours.

    ``model`` is the name of a config of mmdet or mmseg.
    """

    def train(self, run: Run) -> list[str]:
        config = self.config(run)
        if not config.is_file():
            write_file(config, self.written(run))
        work_dir = run.folder / 'work_dir' / 'run'
        command = [*MMEFFVIT, 'train', str(config), '--seed', str(run.seed), '--no-check']
        command += ['--work-dir', str(work_dir)]
        return [*command, '--resume'] if any(work_dir.glob('*.pth')) else command

    def config(self, run: Run) -> Path:
        return run.folder / 'config.py'

    def trained(self, run: Run) -> list[str]:
        best = sorted(run.folder.glob('work_dir/run/best_*.pth'))
        if not best:
            raise UserError(f'{run.folder} has no checkpoint of a finished validation')
        return [str(self.config(run)), str(best[-1])]

    def written(self, run: Run) -> str:
        """Our config for the dataset with the model of the peer."""
        size = run.found.about.image_size if self.task == 'detection' else None
        options = FinetuneOptions(
            weights='none',
            seed=run.seed,
            overrides=Overrides(epochs=run.epochs, image_size=size, processes=1),
        )
        base = Base.of(default_model(run.data, options))
        ours = run.folder / 'ours.py'
        write_run(run.data, base, ours, options)
        config = Config.fromfile(ours)
        peer = with_classes(get_config(self.model).model.to_dict(), len(run.found.about.classes))
        # Theirs pad every crop to the size of another dataset, or enlarge the images.
        peer['data_preprocessor'] = config.model.data_preprocessor
        config.model = peer
        config.pop('custom_imports', None)
        return config.dump()


def with_classes(model: dict, number: int) -> dict:
    """The model for this number of classes, from random weights, with the norms of one process."""
    for key, value in model.items():
        if isinstance(value, dict):
            model[key] = with_classes(value, number)
        elif isinstance(value, list):
            model[key] = [with_classes(v, number) if isinstance(v, dict) else v for v in value]
    if 'num_classes' in model:
        model['num_classes'] = number
    if model.get('type') == 'SyncBN':
        model['type'] = 'BN'
    if isinstance(model.get('init_cfg'), dict) and model['init_cfg'].get('type') == 'Pretrained':
        model['init_cfg'] = None
    if model.get('pretrained'):
        model['pretrained'] = None
    return model


@dataclass(frozen=True)
class Ultralytics(Contender):
    """A model of Ultralytics, from its YAML, with its defaults."""

    multiple: ClassVar[int] = 32
    folder: ClassVar[Path] = ROOT / 'work_dirs' / 'benchmarks' / 'ultralytics'

    def train(self, run: Run) -> list[str]:
        last = run.folder / 'run' / 'weights' / 'last.pt'
        if last.is_file():
            return [*self.yolo, self.kind, 'train', f'model={last}', 'resume=True', 'device=cpu']
        return [
            *self.yolo, self.kind, 'train', f'model={self.model}', f'data={run.yaml}',
            f'epochs={run.epochs}', f'imgsz={run.found.about.image_size}', 'pretrained=False',
            'device=cpu', 'workers=0', f'seed={run.seed}', 'plots=False',
            f'project={run.folder}', 'name=run', 'exist_ok=True',
        ]  # fmt: skip

    @property
    def kind(self) -> str:
        return 'detect' if self.task == 'detection' else 'semantic'

    def curve(self, run: Run) -> list[float]:
        path = run.folder / 'run' / 'results.csv'
        if not path.is_file():
            return []
        key = 'metrics/mAP50-95(B)' if self.task == 'detection' else 'metrics/mIoU'
        with path.open() as lines:
            rows = [{k.strip(): v for k, v in row.items()} for row in csv.DictReader(lines)]
        return [100 * float(row[key]) for row in rows if row.get(key)]

    def best(self, run: Run) -> Path:
        return run.folder / 'run' / 'weights' / 'best.pt'

    def export(self, run: Run) -> dict[str, list[str]]:
        size = f'imgsz={run.found.about.image_size}'
        command = [*self.yolo, 'export', f'model={self.best(run)}', 'format=onnx', size]
        return {'float': [*command, 'dynamic=True', 'simplify=False', 'device=cpu']}

    def file(self, run: Run, kind: str) -> Path:
        return self.best(run).with_suffix('.onnx')

    def predict(self, run: Run, kind: str, out: Path) -> list[str]:
        model = self.best(run) if kind == 'model' else self.file(run, kind)
        return [
            *self.yolo, self.kind, 'val', f'model={model}', f'data={run.yaml}', 'split=test',
            f'imgsz={run.found.about.image_size}', 'save_json=True', 'plots=False', 'device=cpu',
            'workers=0', 'batch=1', f'project={out.parent}', f'name={out.name}', 'exist_ok=True',
        ]  # fmt: skip

    def environment(self) -> Mapping[str, str]:
        own = dict(YOLO_OFFLINE='True', YOLO_CONFIG_DIR=str(self.folder / 'config'))
        return {**super().environment(), **own}

    @cached_property
    def yolo(self) -> list[str]:
        """Its command, in an environment that is made when it is first needed."""
        command = self.folder / 'env' / 'bin' / 'yolo'
        if not command.is_file():
            make_environment(self.folder / 'env')
        return [str(command)]


def make_environment(folder: Path) -> None:
    """Install Ultralytics beside the torch of this environment.

    Raises:
        UserError: If it cannot be installed.
    """
    site = Path(torch.__file__).parents[1]
    try:
        subprocess.run([sys.executable, '-m', 'venv', str(folder)], check=True)
        own = next(folder.glob('lib/python*/site-packages'))
        (own / 'torch_of_the_project.pth').write_text(f'{site}\n')
        pip = [str(folder / 'bin' / 'python'), '-m', 'pip', 'install', '--quiet', '--no-deps']
        subprocess.run([*pip, *ULTRALYTICS], check=True)
    except subprocess.CalledProcessError as error:
        raise UserError(f'{" ".join(map(str, error.cmd))} failed: the peer is missing') from error


APACHE, AGPL = 'Apache-2.0', 'AGPL-3.0'
BFLOAT16 = ('--amp-dtype', 'bfloat16')  # for CPUs with AMX or AVX-512 BF16
DROP_PATH = ('--cfg-options', 'model.backbone.drop_path_rate=0.1')
CONTENDERS: tuple[Contender, ...] = (
    Ours('ours', 'detection', APACHE, '', 0.75),
    Ours('ours-bfloat16', 'detection', APACHE, '', 0.5, BFLOAT16),
    Ours('ours-drop-path-bfloat16', 'detection', APACHE, '', 0.333, (*BFLOAT16, *DROP_PATH)),
    Ours('ours-gflite', 'detection', APACHE, 'gflite_shvit_s1', 0.4),
    Ultralytics('yolo11n', 'detection', AGPL, 'yolo11n.yaml', 0.48),
    Ultralytics('yolo26n', 'detection', AGPL, 'yolo26n.yaml', 0.43),
    OpenMMLab(
        'rtmdet-tiny', 'detection', APACHE, 'mmdet::rtmdet/rtmdet_tiny_8xb32-300e_coco.py', 0.7
    ),
    OpenMMLab('yolox-nano', 'detection', APACHE, 'mmdet::yolox/yolox_nano_8xb8-300e_coco.py', 0.4),
    Ours('ours', 'segmentation', APACHE, '', 0.55),
    Ours('ours-bfloat16', 'segmentation', APACHE, '', 0.45, BFLOAT16),
    Ours(
        'ours-swiftformer-bfloat16',
        'segmentation',
        APACHE,
        'segformer_swiftformer_xs_ade20k',
        1.0,
        BFLOAT16,
    ),
    Ours(
        'ours-swiftformer-drop-path-bfloat16',
        'segmentation',
        APACHE,
        'segformer_swiftformer_xs_ade20k',
        0.774,
        (*BFLOAT16, *DROP_PATH),
    ),
    Ultralytics('yolo26n-sem', 'segmentation', AGPL, 'yolo26n-sem.yaml', 2.75),
    OpenMMLab(
        'fast-scnn',
        'segmentation',
        APACHE,
        'mmseg::fastscnn/fast_scnn_8xb4-160k_cityscapes-512x1024.py',
        1.3,
    ),
    OpenMMLab(
        'bisenetv2',
        'segmentation',
        APACHE,
        'mmseg::bisenetv2/bisenetv2_fcn_4xb4-160k_cityscapes-1024x1024.py',
        3.0,
    ),
    OpenMMLab(
        'segformer-b0',
        'segmentation',
        APACHE,
        'mmseg::segformer/segformer_mit-b0_8xb2-160k_ade20k-512x512.py',
        3.4,
    ),
)
