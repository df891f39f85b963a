"""Tiny models of every exported head, with scores that vary by position."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import torch
from mmengine.config import Config
from numpy.typing import NDArray
from torch import nn

from mmeffvit.deploy.agreement import Measure
from mmeffvit.deploy.compare import compare, expect_model
from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.formats.onnx.write import ExportOptions, export_graph
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.metadata import config_metadata
from tests.configs.models import build, load
from tests.models.parity import randomized

CHANNELS = (16, 24, 32, 40)
CLASSES = tuple('abcde')
SIZE = (96, 128)
FIXED = ExportOptions(SIZE, 1)
WIDTH = 16  # of necks and heads
BACKBONE = {'model.backbone.arch': dict(_delete_=True, channels=CHANNELS, depths=(1, 1, 1, 1))}
DETECTION_NECK = dict(in_channels=list(CHANNELS[1:]), out_channels=WIDTH)
RETINA_HEAD = dict(in_channels=WIDTH, feat_channels=WIDTH, stacked_convs=1, num_classes=5)
RETINA_HEAD |= dict(anchor_generator=dict(strides=[8, 16, 32, 64]))
RTMDET_HEAD = dict(in_channels=WIDTH, feat_channels=WIDTH, stacked_convs=1, num_classes=5)

SEGMENTOR_BACKBONE = {
    'model.backbone': dict(
        _delete_=True,
        type='mmeffvit.SwiftFormer',
        arch=dict(channels=(16, 24, 32, 64), depths=(1, 1, 1, 1)),
        out_indices=(2, 3),
    ),
    'model.auxiliary_head.in_channels': 32,
}

OPTIONS: dict[str, dict[str, Any]] = {
    'retinanet_swiftformer_l1': {
        **BACKBONE,
        # four levels, the last added by the neck; a fifth would only make exports slower
        'model.neck': dict(**DETECTION_NECK, num_outs=4),
        'model.bbox_head': RETINA_HEAD,
    },
    'ssdlite_mobilevitv2_050': {
        'model.bbox_head.num_classes': 5,
        'model.test_cfg': dict(nms_pre=100, max_per_img=50),
    },
    'rtmdet_swiftformer_xs': {
        **BACKBONE,
        'model.neck': DETECTION_NECK,
        'model.bbox_head': RTMDET_HEAD,
        'model.test_cfg': dict(nms_pre=500, max_per_img=100),
    },
    'gflite_swiftformer_xs': {
        **BACKBONE,
        'model.neck': DETECTION_NECK,
        'model.bbox_head': dict(in_channels=WIDTH, feat_channels=WIDTH, num_classes=5),
        'model.test_cfg': dict(nms_pre=500, max_per_img=50),
    },
    'pspnet_mobilevitv2_050_ade20k': {
        **SEGMENTOR_BACKBONE,
        'model.decode_head': dict(in_channels=64, channels=WIDTH),
    },
    'deeplabv3_mobilevitv2_050_ade20k': {
        **SEGMENTOR_BACKBONE,
        'model.decode_head': dict(in_channels=64, channels=WIDTH),
    },
    'semfpn_swiftformer_l1_ade20k': {
        **BACKBONE,
        'model.neck': dict(in_channels=list(CHANNELS), out_channels=WIDTH),
        'model.decode_head': dict(in_channels=[WIDTH] * 4, channels=WIDTH),
    },
    'segformer_swiftformer_xs_ade20k': {
        **BACKBONE,
        'model.decode_head': dict(in_channels=list(CHANNELS), channels=WIDTH),
    },
}


MASK_RCNN = 'maskrcnn_swiftformer_xs_shapes'
DETR = 'deformabledetr_swiftformer_l1_single_head'
ATTENTION = dict(embed_dims=2 * WIDTH)
FEED_FORWARD = dict(embed_dims=2 * WIDTH, feedforward_channels=4 * WIDTH)
# of regions and of queries
SPARSE = {
    MASK_RCNN: {
        'model.backbone.arch': dict(_delete_=True, channels=[8, 16, 24, 32], depths=(1, 1, 1, 1)),
        'model.neck': dict(in_channels=[8, 16, 24, 32], out_channels=WIDTH),
        'model.rpn_head': dict(in_channels=WIDTH, feat_channels=WIDTH),
        'model.roi_head.bbox_roi_extractor.out_channels': WIDTH,
        'model.roi_head.bbox_head': dict(in_channels=WIDTH, fc_out_channels=32),
        'model.roi_head.mask_roi_extractor.out_channels': WIDTH,
        'model.roi_head.mask_head': dict(num_convs=1, in_channels=WIDTH, conv_out_channels=WIDTH),
        'model.test_cfg.rpn': dict(nms_pre=100, max_per_img=60),
        'model.test_cfg.rcnn': dict(score_thr=0.3, max_per_img=30, nms=dict(iou_threshold=0.3)),
    },
    DETR: {
        'model.backbone.arch': dict(_delete_=True, channels=[8, 16, 24, 32], depths=(1, 1, 1, 1)),
        # four channels per group: a map of one cell has more than one value to normalize
        'model.neck': dict(
            in_channels=[16, 24, 32], out_channels=2 * WIDTH, norm_cfg=dict(num_groups=8)
        ),
        'model.num_queries': 40,
        'model.test_cfg.max_per_img': 20,
        'model.positional_encoding.num_feats': WIDTH,
        'model.single_head': dict(encoder=[0], decoder=[], attended=8),
        'model.encoder': dict(
            num_layers=1, layer_cfg=dict(self_attn_cfg=ATTENTION, ffn_cfg=FEED_FORWARD)
        ),
        'model.decoder': dict(
            num_layers=1,
            layer_cfg=dict(self_attn_cfg=ATTENTION, cross_attn_cfg=ATTENTION, ffn_cfg=FEED_FORWARD),
        ),
        'model.bbox_head': dict(num_classes=5, embed_dims=2 * WIDTH),
    },
}
DEVIATIONS = {  # of weights that differ more than initial ones
    'sampling_offsets': 0.2, 'attention_weights': 0.2, 'rpn_cls': 0.2, 'rpn_reg': 0.02,
    'fc_cls': 0.5, 'fc_reg': 0.05, 'conv_logits': 0.5,
}  # fmt: skip


def config_of(config_name: str, options: Mapping[str, Any] | None = None) -> Config:
    config = load(config_name)
    config.merge_from_dict({**(OPTIONS | SPARSE)[config_name], **(options or {})})
    return config


def save_run(config_name: str, folder: Path) -> tuple[Path, Path]:
    """Config and checkpoint of a tiny model, as written by a run."""
    config = config_of(config_name)
    config.test_dataloader.dataset.metainfo = dict(classes=CLASSES)
    config.test_pipeline = None
    config.dump(folder / 'tiny.py')
    meta = dict(dataset_meta=dict(classes=CLASSES))
    torch.save(dict(state_dict=tiny(config_name).state_dict(), meta=meta), folder / 'tiny.pth')
    return folder / 'tiny.py', folder / 'tiny.pth'


def tiny(config_name: str, options: Mapping[str, Any] | None = None) -> nn.Module:
    """A small version of a config's model, with random weights that find objects and classes."""
    torch.manual_seed(0)
    model = randomized(build(config_of(config_name, options))).eval()
    for name, module in model.named_modules():
        if deviation := DEVIATIONS.get(name.rpartition('.')[2]):
            nn.init.normal_(module.weight, std=deviation)
        if config_name == DETR and '_branches.' in name and isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.3)
        if name.endswith(('retina_cls', 'conv_seg')) or '.rtm_cls.' in name:
            # small, so that no two scores are 1 in float32
            nn.init.normal_(module.weight, std=0.05 if 'retina' in name else 0.3)
            nn.init.constant_(module.bias, -2.0)
        if name.endswith('retina_reg') or '.rtm_reg.' in name:
            nn.init.normal_(module.weight, std=0.02)
            nn.init.constant_(module.bias, 1.0 if 'rtm' in name else 0.0)
    if config_name.startswith('gflite'):
        for output in model.bbox_head.outputs:
            nn.init.normal_(output.weight, std=3.0)
    if config_name == DETR:
        nn.init.normal_(model.reference_points_fc.weight, std=0.5)
        nn.init.normal_(model.query_embedding.weight)
        nn.init.normal_(model.level_embed)  # only initialized at the start of training
    elif config_name == MASK_RCNN:
        spread_classes(model)
    else:
        balance(model)
    return model


@torch.no_grad()
def balance(model: nn.Module) -> None:
    """Shift the logits to a mean of 0 on noise, so that no class wins everywhere."""
    maps = model.extract_feat(torch.randn(2, 3, 96, 128))
    if hasattr(model, 'decode_head'):
        model.decode_head.conv_seg.bias -= model.decode_head(maps).mean(dim=(0, 2, 3))
    elif hasattr(getattr(model, 'bbox_head', None), 'outputs'):  # of GFLite
        for output, logits in zip(model.bbox_head.outputs, model.bbox_head(maps)[0], strict=True):
            output.bias[: logits.shape[1]] -= logits.mean(dim=(0, 2, 3))


@torch.no_grad()
def spread_classes(model: nn.Module) -> None:
    """Center and scale the logits on the regions of an image: otherwise all have one class."""
    layer = model.roi_head.bbox_head.fc_cls
    regions = []
    hook = layer.register_forward_hook(lambda _, inputs, __: regions.append(inputs[0]))
    expect_model(model, smooth_image(SIZE), sample_of(model))
    hook.remove()
    logits = regions[0] @ layer.weight.T
    layer.weight.div_(logits.std(dim=0, keepdim=True).T)
    layer.bias.copy_(-logits.mean(dim=0) / logits.std(dim=0))


def sample_of(model: nn.Module) -> object:
    from mmdet.structures import DetDataSample
    from mmseg.structures import SegDataSample

    return SegDataSample() if hasattr(model, 'decode_head') else DetDataSample()


def errors_on(
    path: Path, model: nn.Module, batches: list[NDArray], device: str = 'cpu'
) -> list[Measure]:
    """The largest differences between an ONNX file and a model of mmdet or mmseg."""
    expect = partial(expect_model, model, sample=sample_of(model))
    return compare(open_onnx(path, device=device).run, expect, batches)


def smooth_image(size: tuple[int, int], batch: int = 1) -> NDArray:
    """Smooth noise in integers, (B, 3, H, W): neighbors differ little, as in real images."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(batch, 3, *(side // 8 + 1 for side in size), generator=generator)
    image = torch.nn.functional.interpolate(coarse, size, mode='bilinear') * 255
    return image.round().numpy()


@cache
def file_for_any_size(config_name: str) -> Path:
    """The tiny model of a config in a file."""
    model = tiny(config_name)
    metadata = config_metadata(config_of(config_name), model, dict(classes=CLASSES))
    return file_of(config_name, model, metadata)


@cache
def file_for_one_size(config_name: str) -> Path:
    """The tiny model of a config in a file for one image of :data:`SIZE`."""
    model = tiny(config_name)
    metadata = config_metadata(config_of(config_name), model, dict(classes=CLASSES))
    return file_of(f'{config_name}_fixed', model, metadata, FIXED)


def file_of(
    name: str,
    model: nn.Module,
    metadata: Mapping[str, str] | None = None,
    options: ExportOptions | None = None,
) -> Path:
    """A model in a file; written once per session, as it takes long, most of all for any size."""
    with once_a_session(f'{name}.onnx') as path:
        if not path.exists():
            export_graph(make_graph(model), path, options, metadata)
    return path


@contextmanager
def once_a_session(name: str) -> Iterator[Path]:
    """The path of a file shared by the processes of a session, locked in the block."""
    session = os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())
    folder = Path(gettempdir(), f'mmeffvit_tests_{session}')
    folder.mkdir(exist_ok=True)
    with (folder / f'{name}.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / name
