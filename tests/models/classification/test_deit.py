"""A DeiT classifier as the subject of the analyses of dense models."""

import torch

from mmeffvit.config.load import load_config
from mmeffvit.models.checkpoints.read import read_content
from tests.conftest import ROOT, run_command_here
from tests.models.classification.models import CLASSES, build, labeled, write_images

CONFIG = """
_base_ = {base!r}
meta = dict(classes={classes!r})
test_pipeline = [
    {{{{_base_.load}}}}, dict(type='CenterCrop', crop_size=64), dict(type='PackInputs'),
]
options = dict(batch_size=4, num_workers=0, persistent_workers=False)
data = dict(data_root={root!r}, metainfo=meta)
val_dataloader = dict(dataset=dict(pipeline=test_pipeline, **data), **options)
test_dataloader = val_dataloader
model = dict(
    data_preprocessor=dict(num_classes=3),
    backbone=dict(
        arch=dict(_delete_=True, channels=16, heads=2, depths=(1, 1, 1, 1)), resolution=64,
        drop_path_rate=0.0,
    ),
    head=dict(num_classes=3, in_channels=16),
)
test_evaluator = dict(topk=1)
"""


def test_a_classifier_is_pruned_tested_and_distilled_from_the_full_one(tmp_path):
    write_images(tmp_path / 'data' / 'val', CLASSES, number=2)
    config, out = tmp_path / 'plain.py', tmp_path / 'half.pth'
    base = str(ROOT / 'configs' / 'classifier_deit_t_mobile.py')
    config.write_text(CONFIG.format(base=base, classes=CLASSES, root=str(tmp_path / 'data')))
    torch.manual_seed(0)
    whole = build(load_config(config).model).eval()
    torch.save(dict(state_dict=whole.state_dict()), tmp_path / 'epoch_1.pth')
    run = run_command_here(
        'prune', config, tmp_path / 'epoch_1.pth', '--out', out, '--method', 'competition'
    )
    assert run.returncode == 0, run.stdout
    pruning = read_content(out)['meta']['pruning']
    assert {(n, len(kept)) for n, kept in pruning['heads'].values()} == {(4, 2)}
    assert {(n, len(kept)) for n, kept in pruning['neurons'].values()} == {(64, 32)}
    run = run_command_here('test', tmp_path / 'half.py', out, '--work-dir', tmp_path / 'test')
    assert run.returncode == 0, run.stdout
    assert 'Top 1 Accuracy' in run.stdout
    student = build(load_config(tmp_path / 'half_distill.py').model)
    student.load_state_dict(read_content(out)['state_dict'])
    images, samples = torch.randn(2, 3, 64, 64), labeled(0, 2)
    losses = student.train().loss(images, samples)
    assert set(losses) == {'loss', 'loss_distillation'}
    with torch.no_grad():
        assert student.teacher(images).equal(whole(images))
