"""Random weights for networks of the authors, their files, and images to predict on."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import MODELS, DefaultScope
from mmengine.structures import BaseDataElement
from torch import Tensor, nn

from mmeffvit.models.checkpoints import Checkpoint
from mmeffvit.models.checkpoints.checkpoint import remap
from tests.configs.models import theirs
from tests.models.checkpoints.spelling import official_keys

RETINANET = 'retinanet/retinanet_r50_fpn_1x_coco.py'
MASK_RCNN = 'mask_rcnn/mask-rcnn_r50_fpn_1x_coco.py'
SEMANTIC_FPN = 'sem_fpn/fpn_r50_4xb4-160k_ade20k-512x512.py'


class TimmBackbone(nn.Module):
    """timm's, whose state dict has the official keys."""

    def __init__(self, family: str, name: str, **options: object) -> None:
        super().__init__()
        import timm

        self.timm = timm.create_model(name, num_classes=0, **options)
        self.keys = official_keys(family, self.timm.state_dict())
        self.register_state_dict_post_hook(spell_keys)

    def forward(self, x: Tensor) -> list[Tensor]:
        return self.timm.forward_intermediates(x, intermediates_only=True)


def spell_keys(backbone: TimmBackbone, state: dict, prefix: str, _: object) -> None:
    for key, official in backbone.keys.items():
        state[f'{prefix}{official}'] = state.pop(f'{prefix}timm.{key}')


def with_random_weights(network: nn.Module) -> nn.Module:
    """Weights and statistics other than zero or one: swapped or skipped tensors are detected."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in network.state_dict().items():
            if name.endswith('num_batches_tracked'):
                value.fill_(3000)
            elif not value.is_floating_point():
                continue  # indices
            elif name.endswith('running_var') or (value.ndim == 1 and name.endswith('weight')):
                value.uniform_(0.5, 1.5, generator=generator)
            elif value.ndim == 1:
                value.normal_(0, 0.1, generator=generator)
            else:
                value.normal_(0, value[0].numel() ** -0.5, generator=generator)
    return network.eval()


@torch.no_grad()
def spread(run: Callable[[], object], groups: Iterable[Mapping[nn.Module, float]]) -> None:
    """Scale last layers to these standard deviations, so that some classes are found.

    Args:
        run: Runs the network.
        groups: The deviations of layers; the inputs of a group may depend on the ones before.
    """
    for deviations in groups:
        found = dict.fromkeys(deviations, 0.0)

        def measure(
            layer: nn.Module, _: tuple, output: Tensor, found: dict[nn.Module, float] = found
        ) -> None:
            found[layer] = max(found[layer], float(output.std()))  # maximum over all levels

        hooks = [layer.register_forward_hook(measure) for layer in deviations]
        run()
        for layer, deviation in deviations.items():
            layer.weight.mul_(deviation / found[layer])
            layer.bias.mul_(deviation / found[layer])
        for hook in hooks:
            hook.remove()


def build_theirs(package: str, config: str, backbone: dict, neck: dict) -> nn.Module:
    """The model of a config of mmdet or mmseg with another backbone, and another neck or sizes."""
    model = theirs(package, config).model
    model.pop('pretrained', None)
    model.data_preprocessor.pop('size', None)  # images are not padded to it
    model.backbone, model.neck = backbone, neck if 'type' in neck else {**model.neck, **neck}
    with DefaultScope.overwrite_default_scope(package):
        return revert_sync_batchnorm(MODELS.build(model))


def data_of(picture: Path, size: tuple[int, int], kind: type[BaseDataElement]) -> dict:
    """A picture as a data loader of mmdet or mmseg gives it, resized to a width and a height."""
    image = cv2.imread(str(picture))
    height, width = image.shape[:2]
    resized = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
    scale = (size[0] / width, size[1] / height)
    meta = dict(img_shape=size[::-1], ori_shape=(height, width), scale_factor=scale)
    return dict(
        inputs=[torch.from_numpy(resized).permute(2, 0, 1)], data_samples=[kind(metainfo=meta)]
    )


def checkpoint_of(state: dict[str, Tensor]) -> Checkpoint:
    """A file ``x.pt`` with these weights, as if it had been read."""
    return remap(Checkpoint('x.pt', Path('x.pt'), dict(state)))


def save_cvnets(network: nn.Module, path: Path) -> Path:
    """A plain state dict with its metadata, as the files of the model zoo."""
    torch.save(network.state_dict(), path)
    return path


def save_mmdet2(network: nn.Module, path: Path, classes: tuple[str, ...]) -> Path:
    """What mmcv 1.6 writes: metadata, weights and the state of AdamW."""
    meta = dict(
        epoch=12, iter=87960, seed=0, exp_name='shvit_s4_1x.py', env_info='sys.platform: linux',
        config='model = dict()', mmcv_version='1.6.0', mmdet_version='2.25.0',
        time='Sat Feb  3 10:00:00 2024', CLASSES=classes, hook_msgs={},
    )  # fmt: skip
    parameters = list(network.parameters())[:2]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    content = dict(meta=meta, state_dict=network.state_dict(), optimizer=optimizer.state_dict())
    torch.save(content, path)
    return path


def save_picture(path: Path, width: int, height: int) -> Path:
    """Blobs of color, saved losslessly."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    cv2.imwrite(str(path), cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC))
    return path


def as_coco(shapes: Path, folder: Path) -> Path:
    """The generated shapes with the 80 categories of COCO."""
    from mmdet.datasets import CocoDataset

    names = CocoDataset.METAINFO['classes']
    (folder / 'annotations').mkdir(parents=True)
    for split in ('train2017', 'val2017'):
        (folder / split).symlink_to(shapes / split)
        content = json.loads((shapes / f'annotations/instances_{split}.json').read_text())
        content['categories'] = [dict(id=i, name=name) for i, name in enumerate(names, 1)]
        (folder / f'annotations/instances_{split}.json').write_text(json.dumps(content))
    return folder


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return float((ours - theirs).abs().max() / theirs.abs().max())
