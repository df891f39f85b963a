"""What the predictions of a segmentor are kept as."""

import pickle

import torch

from mmeffvit.engine.evaluate import DumpLabelMaps


def test_label_maps_are_kept_without_the_scores_of_every_class(tmp_path):
    sample = dict(
        pred_sem_seg=dict(data=torch.ones(1, 4, 4, dtype=torch.long)),
        seg_logits=dict(data=torch.rand(150, 4, 4)),
    )
    metric = DumpLabelMaps(out_file_path=str(tmp_path / 'found.pkl'))
    metric.process(None, [sample])
    metric.evaluate(size=1)
    (kept,) = pickle.loads((tmp_path / 'found.pkl').read_bytes())
    assert set(kept) == {'pred_sem_seg'}
    assert kept['pred_sem_seg']['data'].shape == (1, 4, 4)
    assert 'seg_logits' in sample  # the other metrics still see it
