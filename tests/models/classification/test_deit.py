"""A DeiT classifier as the subject of the analyses of dense models."""

import torch

from mmeffvit.config.load import load_config
from mmeffvit.models.checkpoints.read import read_content
from tests.conftest import output_of
from tests.models.classification.models import CLASSES, build, labeled, write_config, write_images

BACKBONE = dict(
    type='mmeffvit.DeiTMobiAtt',
    arch=dict(channels=16, heads=2, depths=(1, 1, 1, 1)),
    resolution=64,
    out_indices=(3,),
    output='class_tokens',
)


def test_a_classifier_is_pruned_tested_and_distilled_from_the_full_one(tmp_path):
    write_images(tmp_path / 'data' / 'val', CLASSES, number=2)
    out = tmp_path / 'half.pth'
    config = write_config(
        tmp_path / 'plain.py', 'classifier_deit_t_mobile', tmp_path / 'data', BACKBONE
    )
    whole = build(load_config(config).model).eval()
    torch.save(dict(state_dict=whole.state_dict()), tmp_path / 'epoch_1.pth')
    output_of('prune', config, tmp_path / 'epoch_1.pth', '--out', out, '--method', 'competition')
    pruning = read_content(out)['meta']['pruning']
    assert {(n, len(kept)) for n, kept in pruning['heads'].values()} == {(4, 2)}
    assert {(n, len(kept)) for n, kept in pruning['neurons'].values()} == {(64, 32)}
    printed = output_of('test', tmp_path / 'half.py', out, '--work-dir', tmp_path / 'test')
    assert 'Top 1 Accuracy' in printed
    student = build(load_config(tmp_path / 'half_distill.py').model)
    student.load_state_dict(read_content(out)['state_dict'])
    images, samples = torch.randn(2, 3, 64, 64), labeled(0, 2)
    losses = student.train().loss(images, samples)
    assert set(losses) == {'loss', 'loss_distillation'}
    with torch.no_grad():
        assert student.teacher(images).equal(whole(images))


def test_with_a_head_of_mmpretrain_the_pruned_backbone_learns_from_the_maps(tmp_path):
    backbone = dict(BACKBONE, output='maps')
    config = write_config(
        tmp_path / 'plain.py', 'classifier_deit_t_mobile', tmp_path / 'data', backbone
    )
    head = dict(_delete_=True, type='LinearClsHead', num_classes=len(CLASSES), in_channels=16)
    neck = dict(type='GlobalAveragePooling')
    written = load_config(config, {'model.head': head, 'model.neck': neck})
    written.model.data_preprocessor.pop('type')  # mmpretrain's default
    written.dump(config)
    torch.save(dict(state_dict=build(load_config(config).model).state_dict()), tmp_path / 'w.pth')
    out = tmp_path / 'half.pth'
    output_of('prune', config, tmp_path / 'w.pth', '--out', out, '--method', 'uvc')
    student = build(load_config(tmp_path / 'half_distill.py').model)
    assert set(student(torch.randn(2, 3, 64, 64), mode='loss')) == {'loss_map_0', 'relative_error'}
