"""Adaptive gradient clipping, and the labels of ImageNetV2."""

import pytest
import torch
from mmengine.registry import DATASETS, OPTIM_WRAPPERS, init_default_scope
from torch import nn

from mmeffvit.errors import UserError
from tests.models.classification.models import CLASSES, write_images


def test_gradients_are_clipped_as_by_timm(timm):
    from timm.utils.agc import adaptive_clip_grad

    models = [nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(5, 2)) for _ in '12']
    models[1].load_state_dict(models[0].state_dict())
    for model in models:
        for index, parameter in enumerate(model.parameters()):
            torch.manual_seed(index)
            parameter.grad = torch.randn_like(parameter) * 10.0 ** (index % 4 - 3)
    before = [p.grad.clone() for p in models[0].parameters()]
    optimizer = torch.optim.SGD(models[0].parameters(), lr=0.0)
    wrapper = OPTIM_WRAPPERS.build(
        dict(type='mmeffvit.AdaptiveClipOptimWrapper', optimizer=optimizer, clip_factor=0.02)
    )
    wrapper.step()
    adaptive_clip_grad(models[1].parameters(), 0.02)
    changed = 0
    for ours, theirs, old in zip(*(model.parameters() for model in models), before, strict=True):
        assert torch.allclose(ours.grad, theirs.grad, rtol=1e-6)
        changed += not torch.equal(ours.grad, old)
    assert 0 < changed < len(before)


INDICES = tuple(map(str, range(12)))


def imagenet_v2(root, classes=INDICES):
    init_default_scope('mmpretrain')
    return DATASETS.build(
        dict(type='mmeffvit.ImageNetV2', data_root=str(root), data_prefix=dict(img_path='v2'),
             metainfo=dict(classes=classes), pipeline=[])
    )  # fmt: skip


def test_folders_of_imagenet_v2_are_indices_not_texts(tmp_path):
    write_images(tmp_path / 'v2', INDICES, number=1)
    dataset = imagenet_v2(tmp_path)
    found = {dataset.get_data_info(i)['img_path'].split('/')[-2]: dataset.get_gt_labels()[i]
             for i in range(len(dataset))}  # fmt: skip
    assert found == {name: int(name) for name in INDICES}


def test_a_folder_of_another_name_is_rejected(tmp_path):
    write_images(tmp_path / 'v2', CLASSES, number=1)
    with pytest.raises(UserError, match='its folders are named 0 to 999'):
        imagenet_v2(tmp_path, CLASSES)
