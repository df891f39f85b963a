"""Small untrained models of every head, in the files of a run."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope

from mmeffvit.config.build import build_model, own_model_config
from mmeffvit.config.datasets import build_unread, eval_dataset
from mmeffvit.config.load import load_config
from mmeffvit.data.shapes import CLASSES
from tests.conftest import ROOT
from tests.learning.overfit import Case

FEW = 5  # detections per image: drawing takes longer than finding


@dataclass(frozen=True)
class Untrained:
    """A config file and a checkpoint with random weights for it."""

    config: Path
    checkpoint: Path


def save_untrained(case: Case, folder: Path, data_root: Path) -> Untrained:
    """Write the config of a case, with small images and every score kept, and its random weights.

    Args:
        case: A head with its small model.
        folder: Gets both files.
        data_root: What the config's own data root is replaced by.
    """
    options = {'data_root': str(data_root), 'model.backbone.init_cfg': None, **case.options}
    config = load_config(ROOT / 'configs' / f'{case.config_name}.py', options)
    dataset = config.test_dataloader.dataset
    for step in dataset.pipeline:
        if step['type'] == 'Resize':
            step['scale'] = (case.side, case.side)
    if config.default_scope == 'mmdet':
        dataset.metainfo = dict(classes=CLASSES)
        keep_every_score(config)
    folder.mkdir(parents=True)
    config.dump(folder / 'config.py')
    torch.manual_seed(0)
    init_default_scope(config.default_scope)
    model = build_model(own_model_config(config))
    if config.default_scope == 'mmdet':
        model.init_weights()
    meta = dict(dataset_meta=dict(build_unread(eval_dataset(config)).metainfo), seed=np.int64(0))
    torch.save(dict(meta=meta, state_dict=model.state_dict()), folder / 'epoch_1.pth')
    return Untrained(folder / 'config.py', folder / 'epoch_1.pth')


def keep_every_score(config: Config) -> None:
    """Adapt an untrained model so that it finds a few objects."""
    settings = config.model.test_cfg.get('rcnn', config.model.test_cfg)
    settings.score_thr, settings.max_per_img = 0.0, FEW
