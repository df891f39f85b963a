"""The COCO config on real images: trains, evaluates, resumes, learns."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT, output_of

CONFIG = ROOT / 'configs' / 'maskrcnn_swiftformer_xs.py'
SCALE = '(96,72)'
OPTIONS = [
    'model.backbone.init_cfg=None',  # from scratch: the weights are not available
    'train_dataloader.batch_size=2',
    f'train_dataloader.dataset.pipeline.2.scale={SCALE}',
    f'val_dataloader.dataset.pipeline.1.scale={SCALE}',
    'model.train_cfg.rcnn.sampler.num=8',
    'param_scheduler.0.end=16',  # 500 iterations of warm-up are more than the whole run
    'model.test_cfg.rpn.max_per_img=100',
    'model.test_cfg.rcnn.max_per_img=20',
    'model.test_cfg.rcnn.score_thr=0.0',  # so early, no class is likely to reach any score
    'default_hooks.logger.interval=1',
    'log_processor.window_size=1',
]


def train(coco: Path, work_dir: Path, epochs: int, *arguments: str) -> str:
    return output_of(
        'train', CONFIG, '--work-dir', work_dir, '--seed', 0, '--verbose', *arguments,
        '--cfg-options', f'data_root={coco}/', f'train_cfg.max_epochs={epochs}', *OPTIONS,
    )  # fmt: skip


STOCK = """
_base_ = {base!r}
custom_imports = dict(imports=['mmeffvit'])
model = dict(
    backbone=dict(_delete_=True, type='SwiftFormer', arch='xs', out_indices=(1, 2, 3)),
    neck=dict(in_channels=[56, 112, 220], start_level=0),
)
"""


@pytest.mark.slow
def test_a_config_of_mmdet_works_with_our_backbone(coco_mini, tmp_path):
    mmdet = Path(find_spec('mmdet').origin).parent
    config = tmp_path / 'existing.py'
    base = mmdet / '.mim' / 'configs' / 'retinanet' / 'retinanet_r50_fpn_1x_coco.py'
    config.write_text(STOCK.format(base=str(base)))
    printed = output_of(
        'train', config, '--work-dir', tmp_path / 'run', '--cfg-options', f'data_root={coco_mini}/',
        f'train_dataloader.dataset.pipeline.2.scale={SCALE}',
        f'val_dataloader.dataset.pipeline.1.scale={SCALE}',
        'train_dataloader.dataset.indices=4', 'val_dataloader.dataset.indices=4',
        'train_cfg.max_epochs=1', 'default_hooks.logger.interval=2', 'test_cfg=None',
        'test_dataloader=None', 'test_evaluator=None', 'model.test_cfg.score_thr=0.0',
        'model.test_cfg.max_per_img=20',
    )  # fmt: skip
    assert 'box AP' in printed
    assert (tmp_path / 'run' / 'epoch_1.pth').is_file()


@pytest.mark.slow
@pytest.mark.variant
def test_the_coco_config_learns_on_real_images(coco_mini, tmp_path):
    said = train(coco_mini, tmp_path, 1)
    assert 'coco/bbox_mAP' in said
    assert 'coco/segm_mAP' in said
    said = train(coco_mini, tmp_path, 2, '--resume')
    assert 'resumed epoch: 1' in said
    rows = [
        json.loads(line)
        for path in sorted(tmp_path.glob('*/vis_data/scalars.json'))
        for line in path.read_text().splitlines()
    ]
    losses = [row['loss'] for row in rows if 'loss' in row]
    assert len(losses) == 2 * len(losses[: len(losses) // 2]) >= 28
    first, last = sum(losses[:4]) / 4, sum(losses[-4:]) / 4
    assert last <= first * 2 / 3, (first, last)
    assert sum('coco/segm_mAP' in row for row in rows) == 2
