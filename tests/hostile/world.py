"""What hostile cases start from: small good data, models and files, made once."""

import json
import os
import random
import shutil
from pathlib import Path

import cv2
import numpy as np
import torch
from onnx.helper import make_node
from PIL import Image

from mmeffvit.data.shapes import CLASSES, ShapesSpec, generate, generate_ade20k
from tests.analysis.small import save_segmentor
from tests.conftest import ROOT
from tests.deploy.onnx_files import write_onnx

SIDE = 64
TRAIN = 'annotations/instances_train2017.json'
VAL = 'annotations/instances_val2017.json'

DETECTOR = """
_base_ = [{base!r}]
data_root = 'shapes/'
model = dict(
    backbone=dict(arch=dict(_delete_=True, channels=(16, 24, 32, 40), depths=(1, 1, 1, 1))),
    neck=dict(in_channels=[16, 24, 32, 40]),
    roi_head=dict(
        bbox_head=dict(fc_out_channels=16),
        mask_head=dict(num_convs=1, conv_out_channels=8),
    ),
)
train_cfg = dict(max_epochs=2, val_interval=3)
train_dataloader = dict(batch_size=4, dataset=dict(data_root=data_root))
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=data_root + 'annotations/instances_val2017.json')
test_evaluator = val_evaluator
randomness = dict(seed=0)
"""


def build(folder: Path) -> None:
    """Fill ``folder``; in a process of its own, as training starts threads."""
    from mmeffvit.cli.main import main

    os.chdir(folder)
    os.environ.update(TORCH_HOME=str(folder / 'cache'), HF_HOME=str(folder / 'cache'))
    generate(folder / 'shapes', ShapesSpec(num_train=4, num_val=2, side=SIDE, max_objects=3))
    generate_ade20k(folder / 'ade', ShapesSpec(num_train=2, num_val=1, side=SIDE))
    shutil.copytree(folder / 'shapes' / 'val2017', folder / 'images')
    for name in ('a', 'b'):
        random_picture(7).save(folder / 'images' / f'{name}.jpg')
    write_video(folder / 'video.avi')
    base = ROOT / 'configs/maskrcnn_swiftformer_xs_shapes.py'
    (folder / 'detector.py').write_text(DETECTOR.format(base=str(base)))
    main(['train', 'detector.py', '--work-dir', 'run', '--no-check'])
    for number in (1, 2):
        spread_scores(folder / 'run' / f'epoch_{number}.pth')
    low = ['--cfg-options', 'model.test_cfg.rcnn.score_thr=0.0']
    main(
        ['test', 'detector.py', 'run/epoch_2.pth', '--work-dir', 'tested', '--out', 'found.pkl',
         *low]
    )  # fmt: skip
    main(
        ['predict', 'detector.py', 'run/epoch_2.pth', 'shapes/val2017', '--out', 'found.json',
         '--no-save-vis', *low]
    )  # fmt: skip
    (folder / 'mobile').mkdir()
    save_segmentor('mmeffvit.PVTv2MobiAtt', Path('ade'), folder / 'mobile')
    write_backbone(folder)
    write_segmentor(folder / 'model.onnx')


def spread_scores(path: Path) -> None:
    """Apart enough for an exported model to find the same objects in the same order."""
    content = torch.load(path, weights_only=False)
    for key, value in content['state_dict'].items():
        if key.endswith(('rpn_cls.weight', 'fc_cls.weight')):
            value.mul_(100)
    torch.save(content, path)


def random_picture(seed: int) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC))


def write_video(path: Path, codec: str = 'MJPG') -> None:
    video = cv2.VideoWriter(os.fsencode(path), cv2.VideoWriter_fourcc(*codec), 10, (SIDE, SIDE))
    for seed in range(8):
        video.write(np.asarray(random_picture(seed)))
    video.release()


def write_backbone(folder: Path) -> None:
    """Weights of a released variant, as a torch file, in the old format, and as safetensors."""
    from safetensors.torch import save_file

    from mmeffvit.models import SwiftFormer

    torch.manual_seed(0)
    state = {key: value.half() for key, value in SwiftFormer('xs').state_dict().items()
             if value.is_floating_point()}  # fmt: skip
    torch.save({'state_dict': state}, folder / 'backbone.pth')
    torch.save({'state_dict': state}, folder / 'old.pth', _use_new_zipfile_serialization=False)
    save_file({key: value.contiguous() for key, value in state.items()},
              folder / 'backbone.safetensors')  # fmt: skip


def write_segmentor(path: Path) -> None:
    """A segmentor of two convolutions, described as the export describes one."""
    shapes = dict(stem=(4, 3, 3, 3), w=(4, 4, 1, 1))  # the image's stays in float
    rng = np.random.default_rng(0)
    weights = {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    nodes = [
        make_node('Conv', ['images', 'stem'], ['maps'], name='stem', pads=[1, 1, 1, 1]),
        make_node('Conv', ['maps', 'w'], ['scores'], name='conv'),
        make_node('ArgMax', ['scores'], ['label_map'], name='argmax', axis=1, keepdims=0),
    ]
    shape = ('B', 3, 'H', 'W')
    write_onnx(path, nodes, {'label_map': 'int64'}, weights, METADATA, shape)


METADATA = {
    'task': 'semantic segmentation',
    'outputs': json.dumps(['label_map']),
    'classes': json.dumps(list(CLASSES)),
    'mean': json.dumps([0.0, 0.0, 0.0]),
    'std': json.dumps([1.0, 1.0, 1.0]),
    'resize': json.dumps(dict(scale=[SIDE, SIDE], keep_ratio=False)),
    'network_colors': 'RGB',
}


class World:
    """The folder that :func:`build` filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def copy(self, name: str, target: Path) -> Path:
        """A file or a folder of it, into the folder of a case under its own name."""
        source, target = self.folder / name, target / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)
        return target


def dice(*key: object) -> random.Random:
    """Random numbers that belong to a name."""
    return random.Random(' '.join(map(str, key)))
