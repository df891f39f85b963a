"""Key tables of the MobileViTv2 releases: backbones, and cvnets' detectors and segmentors."""

from functools import partial

import torch
from torch import Tensor

from mmeffvit.models.checkpoints.rename import Layout, Table

OFFICIAL: Table = (
    (r'^classifier\.', None),
    (r'\.block\.(conv|norm)\.', r'.\1.'),
    (r'^conv_1\.', 'stem.'),
    # the first entry of a stage leads to it
    *((rf'^layer_{i + 1}\.0\.block\.', f'stages.{i}.downsample.') for i in range(5)),
    (r'^layer_2\.1\.block\.', 'stages.1.blocks.0.'),
    *((rf'^layer_{i + 1}\.1\.', f'stages.{i}.blocks.0.') for i in (2, 3, 4)),
    (r'\.exp_1x1\.', '.expand.'),
    (r'\.conv_3x3\.', '.depthwise.'),
    (r'\.red_1x1\.', '.project.'),
    (r'\.local_rep\.0\.', '.depthwise.'),
    (r'\.local_rep\.1\.conv\.', '.expand.'),
    (r'\.global_rep\.(\d+)\.(weight|bias)$', r'.norm.\2'),  # after the last encoder
    (r'\.global_rep\.', '.encoders.'),
    (r'\.pre_norm_attn\.0\.', '.attention_norm.'),
    (r'\.pre_norm_attn\.1\.qkv_proj\.conv\.', '.attention.qkv.'),
    (r'\.pre_norm_attn\.1\.out_proj\.conv\.', '.attention.out.'),
    (r'\.pre_norm_ffn\.0\.', '.feed_forward_norm.'),
    (r'\.pre_norm_ffn\.1\.conv\.', '.feed_forward.0.'),
    (r'\.pre_norm_ffn\.3\.conv\.', '.feed_forward.2.'),
    (r'\.conv_proj\.', '.project.'),
)

TIMM: Table = (
    (r'^head\.', None),
    (r'\.bn\.', '.norm.'),
    *((rf'^stages\.{i}\.0\.', f'stages.{i}.downsample.') for i in range(5)),
    *((rf'^stages\.{i}\.1\.', f'stages.{i}.blocks.0.') for i in range(1, 5)),
    (r'\.conv1_1x1\.', '.expand.'),
    (r'\.conv2_kxk\.', '.depthwise.'),
    (r'\.conv3_1x1\.', '.project.'),
    (r'\.conv_kxk\.', '.depthwise.'),
    (r'\.conv_1x1\.', '.expand.'),
    (r'\.conv_proj\.', '.project.'),
    (r'\.transformer\.', '.encoders.'),
    (r'\.norm1\.', '.attention_norm.'),
    (r'\.norm2\.', '.feed_forward_norm.'),
    (r'\.attn\.qkv_proj\.', '.attention.qkv.'),
    (r'\.attn\.out_proj\.', '.attention.out.'),
    (r'\.mlp\.fc1\.', '.feed_forward.0.'),
    (r'\.mlp\.fc2\.', '.feed_forward.2.'),
)

CLASSIFIER: Table = ((r'^(classifier\.1|head\.fc)\.', 'head.classifier.fc.'),)

BOX = 4  # values of an anchor before its scores


def background_last(both: Tensor, anchors: int) -> Tensor:
    """Move the background's score of every anchor, in SSD's joint convolution, behind the classes.

    Weight or bias have (anchors * (4 + 1 + classes), ...): of each anchor the box, then the
    background, then the classes.
    """
    box, background, classes = both.unflatten(0, (anchors, -1)).tensor_split((BOX, BOX + 1), dim=1)
    return torch.cat([box, classes, background], dim=1).flatten(0, 1)


def ssdlite_table(projected: str) -> Table:
    """SSDLite of cvnets; the levels ``projected``, a set of digits, pass 1x1 before their head."""
    head = r'bbox_head.predictors.\1'
    separable = r'^ssd_heads\.({})\.loc_cls_layer\.{}_conv\.block\.'.format
    return (
        (r'^extra_layers\.os_64\.', 'neck.extras.0.'),
        (r'^extra_layers\.os_128\.', 'neck.extras.1.'),
        (r'^extra_layers\.os_256\.', 'neck.extras.2.'),
        (r'^extra_layers\.os_-1\.1\.block\.conv\.', 'neck.pooled.1.'),
        (r'^(neck\.extras\.\d)\.dw_conv\.block\.', r'\1.0.'),
        (r'^(neck\.extras\.\d)\.pw_conv\.block\.', r'\1.1.'),
        (r'^ssd_heads\.(\d)\.proj_layer\.block\.', f'{head}.0.'),
        (separable(projected, 'dw'), f'{head}.1.'),
        (separable(projected, 'pw') + r'conv\.', f'{head}.2.'),
        (separable(r'\d', 'dw'), f'{head}.0.'),
        (separable(r'\d', 'pw') + r'conv\.', f'{head}.1.'),
        (r'^ssd_heads\.(5)\.loc_cls_layer\.block\.conv\.', f'{head}.0.'),
    )


SSD_ORDER = (
    (r'^bbox_head\.predictors\.[0-4]\.\d\.(weight|bias)$', partial(background_last, anchors=6)),
    (r'^bbox_head\.predictors\.5\.\d\.(weight|bias)$', partial(background_last, anchors=4)),
)
SEGMENTOR: Table = (
    (r'^seg_head\.aux_head\.0\.block\.conv\.', 'auxiliary_head.convs.0.conv.'),
    (r'^seg_head\.aux_head\.0\.block\.norm\.', 'auxiliary_head.convs.0.bn.'),
    (r'^seg_head\.aux_head\.2\.block\.conv\.', 'auxiliary_head.conv_seg.'),
    (r'^seg_head\.classifier\.block\.conv\.', 'decode_head.conv_seg.'),
    (r'^seg_head\.psp_layer\.psp_branches\.(\d)\.', r'decode_head.pools.\1.'),
    (r'^seg_head\.psp_layer\.fusion\.0\.', 'decode_head.fuse.'),
    (r'^seg_head\.aspp\.aspp_layer\.convs\.([0-3])\.', r'decode_head.branches.\1.'),
    (r'^seg_head\.aspp\.aspp_layer\.convs\.4\.aspp_pool\.conv_1x1\.', 'decode_head.image_pool.1.'),
    (r'^seg_head\.aspp\.aspp_layer\.project\.', 'decode_head.fuse.'),
    (r'\.block\.conv\.', '.conv.'),
    (r'\.block\.norm\.', '.bn.'),
)
# transformers' MobileViTV2ForSemanticSegmentation: DeepLabv3 without the auxiliary head
TRANSFORMERS: Table = (
    (r'\.convolution\.', '.conv.'),
    (r'\.normalization\.', '.norm.'),
    (r'^conv_stem\.', 'stem.'),
    (r'^encoder\.layer\.(\d)\.', r'stages.\1.'),
    (r'^(stages\.[01])\.layer\.0\.', r'\1.downsample.'),
    (r'^(stages\.1)\.layer\.1\.', r'\1.blocks.0.'),
    (r'^(stages\.\d)\.downsampling_layer\.', r'\1.downsample.'),
    (r'\.expand_1x1\.', '.expand.'),
    (r'\.conv_3x3\.', '.depthwise.'),
    (r'\.reduce_1x1\.', '.project.'),
    (r'^(stages\.\d)\.conv_kxk\.', r'\1.blocks.0.depthwise.'),
    (r'^(stages\.\d)\.conv_1x1\.conv\.', r'\1.blocks.0.expand.'),
    (r'^(stages\.\d)\.transformer\.layer\.', r'\1.blocks.0.encoders.'),
    (r'\.layernorm_before\.', '.attention_norm.'),
    (r'\.attention\.qkv_proj\.conv\.', '.attention.qkv.'),
    (r'\.attention\.out_proj\.conv\.', '.attention.out.'),
    (r'\.layernorm_after\.', '.feed_forward_norm.'),
    (r'\.ffn\.conv1\.conv\.', '.feed_forward.0.'),
    (r'\.ffn\.conv2\.conv\.', '.feed_forward.2.'),
    (r'^(stages\.\d)\.layernorm\.', r'\1.blocks.0.norm.'),
    (r'^(stages\.\d)\.conv_projection\.', r'\1.blocks.0.project.'),
)
TRANSFORMERS_HEAD: Table = (
    (r'\.convolution\.', '.conv.'),
    (r'\.normalization\.', '.bn.'),
    (r'^segmentation_head\.aspp\.convs\.([0-3])\.', r'decode_head.branches.\1.'),
    (r'^segmentation_head\.aspp\.convs\.4\.conv_1x1\.', 'decode_head.image_pool.1.'),
    (r'^segmentation_head\.aspp\.project\.', 'decode_head.fuse.'),
    (r'^segmentation_head\.classifier\.conv\.', 'decode_head.conv_seg.'),
)

# at width 0.5 the second level of SSDLite has the channels of its head already
SSD, NARROW_SSD = ssdlite_table('[01]'), ssdlite_table('0')
LAYOUTS = (
    Layout('official', r'^conv_1\.block\.', OFFICIAL, CLASSIFIER),
    Layout('timm', r'^stages\.\d\.0\.conv1_1x1\.', TIMM, CLASSIFIER),
    Layout(
        'cvnets', r'^ssd_heads\.1\.proj_layer\.', OFFICIAL, SSD, 'encoder.', changes=SSD_ORDER
    ),
    Layout('cvnets', r'^ssd_heads\.', OFFICIAL, NARROW_SSD, 'encoder.', changes=SSD_ORDER),
    Layout('cvnets', r'^seg_head\.', OFFICIAL, SEGMENTOR, 'encoder.'),
    Layout(
        'transformers', r'^segmentation_head\.', TRANSFORMERS, TRANSFORMERS_HEAD, 'mobilevitv2.'
    ),
    Layout('mmeffvit', r'^stages\..*\.encoders\.|^stages\.0\.downsample\.expand\.', ()),
)  # fmt: skip
