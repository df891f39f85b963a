"""What the predictions of a segmentor are kept as, and where they are drawn."""

import pickle
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import VISUALIZERS, init_default_scope

from mmeffvit.train.engine.evaluate import DumpLabelMaps, draw_predictions


@pytest.mark.parametrize(
    ('label', 'dtype'), [(7, torch.uint8), (300, torch.long), (-1, torch.long)]
)
def test_label_maps_are_kept_in_bytes_and_without_the_scores_of_every_class(label, dtype, tmp_path):
    sample = dict(
        pred_sem_seg=dict(data=torch.full((1, 4, 4), label)),
        seg_logits=dict(data=torch.rand(150, 4, 4)),
    )
    metric = DumpLabelMaps(out_file_path=str(tmp_path / 'found.pkl'))
    metric.process(None, [sample])
    metric.evaluate(size=1)
    (kept,) = pickle.loads((tmp_path / 'found.pkl').read_bytes())
    assert set(kept) == {'pred_sem_seg'}
    assert kept['pred_sem_seg']['data'].dtype == dtype
    assert kept['pred_sem_seg']['data'].tolist() == sample['pred_sem_seg']['data'].tolist()
    # the other metrics still see them
    assert 'seg_logits' in sample
    assert sample['pred_sem_seg']['data'].dtype == torch.long


def test_two_tests_of_a_process_draw_into_their_own_folders(tmp_path):
    init_default_scope('mmseg')
    for name in ('first', 'second'):
        config = Config(dict(default_scope='mmseg'))
        draw_predictions(config, tmp_path / name)
        (backend,) = VISUALIZERS.build(config.visualizer)._vis_backends.values()
        assert (tmp_path / name).resolve() in Path(backend._save_dir).parents
