"""A DeiT classifier is pruned, tested, distilled from the unpruned one, and its heads compared."""

import json

import pytest
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
        attention=dict(competition={competition}), drop_path_rate=0.0,
    ),
    head=dict(num_classes=3, in_channels=16),
)
test_evaluator = dict(topk=1)
"""


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('classifier')
    write_images(folder / 'data' / 'val', CLASSES, number=2)
    base = str(ROOT / 'configs' / 'classifier_deit_t_mobile.py')
    for name, competition in (('plain', True), ('linear', False)):
        text = CONFIG.format(
            base=base, classes=CLASSES, root=str(folder / 'data'), competition=competition
        )
        (folder / f'{name}.py').write_text(text)
    torch.manual_seed(0)
    model = build(load_config(folder / 'plain.py').model)
    torch.save(dict(state_dict=model.state_dict()), folder / 'epoch_1.pth')
    return folder


# the rows of table 4: with UVC, at random and by the score; without competition, with UVC
@pytest.mark.parametrize(
    ('config', 'method'),
    [('linear', 'uvc'), ('plain', 'uvc'), ('plain', 'random'), ('plain', 'competition')],
)
def test_the_rows_of_table_4_are_made(folder, tmp_path, config, method):
    out = tmp_path / 'half.pth'
    run = run_command_here(
        'prune', folder / f'{config}.py', folder / 'epoch_1.pth', '--out', out, '--method', method
    )
    assert run.returncode == 0, run.stdout
    pruning = read_content(out)['meta']['pruning']
    assert {(n, len(kept)) for n, kept in pruning['heads'].values()} == {(4, 2)}
    assert {(n, len(kept)) for n, kept in pruning['neurons'].values()} == {(64, 32)}
    if method != 'competition':
        return
    run = run_command_here('test', tmp_path / 'half.py', out, '--work-dir', tmp_path / 'test')
    assert run.returncode == 0, run.stdout
    assert 'Top 1 Accuracy' in run.stdout
    student = build(load_config(tmp_path / 'half_distill.py').model)
    student.load_state_dict(read_content(out)['state_dict'])
    images, samples = torch.randn(2, 3, 64, 64), labeled(0, 2)
    losses = student.train().loss(images, samples)
    assert set(losses) == {'loss', 'loss_distillation'}
    whole = build(load_config(folder / 'plain.py').model).eval()
    whole.load_state_dict(read_content(folder / 'epoch_1.pth')['state_dict'])
    with torch.no_grad():
        assert student.teacher(images).equal(whole(images))
        scores, teacher = student.eval()(images), whole(images)
    expected = torch.nn.functional.kl_div(
        scores.log_softmax(1), teacher.log_softmax(1), log_target=True, reduction='sum'
    )
    found = losses['loss_distillation'].item()
    assert found == pytest.approx(0.5 * expected.item() / scores.numel(), rel=1e-4)


@torch.no_grad()
def test_heads_of_a_distilled_classifier_are_compared_removed_and_kept_alone(folder, tmp_path):
    config = folder / 'heads.py'
    text = (folder / 'linear.py').read_text().replace('deit_t_mobile', 'deit_t')
    text = text.replace('attention=dict(competition=False), ', 'class_tokens=2, ').replace(
        'heads=2', 'heads=4'
    )
    config.write_text(text.replace('in_channels=16', 'in_channels=16, distilled=True'))
    torch.manual_seed(0)
    model = build(load_config(config).model)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    torch.save(dict(state_dict=model.state_dict()), tmp_path / 'epoch_1.pth')
    layer = 'stages.3.blocks.0'
    run = run_command_here(
        'analyze', 'heads', config, tmp_path / 'epoch_1.pth', '--out', tmp_path / 'heads',
        '--keep-one', '--layers', layer,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    table = json.loads((tmp_path / 'heads' / 'heads.json').read_text())
    heads = table['layers'][f'backbone.{layer}.attention']
    assert len(heads) == 4
    for head in heads:
        assert -1 <= head['outputs'] <= 1
        assert 0 < head['maps'] < 1  # of 2 + 16 tokens
        for kind in ('metrics', 'alone'):
            assert 0 <= head[kind]['Top 1 Accuracy'] <= 100
