"""Key table of the DeiT releases; timm's copies have the official keys."""

from mmeffvit.models.checkpoints.rename import CLASSIFIERS, NO_CLASSIFIER, Layout, Table

OFFICIAL: Table = (
    *NO_CLASSIFIER,
    (r'^cls_token$', 'stem.class_token'),
    (r'^dist_token$', 'stem.distillation_token'),
    (r'^pos_embed$', 'stem.positions'),
    (r'^patch_embed\.proj\.', 'stem.conv.'),
    # twelve blocks, three in each stage
    *((rf'^blocks\.{i}\.', f'stages.{i // 3}.blocks.{i % 3}.') for i in range(12)),
    (r'\.norm1\.', '.attention_norm.'),
    (r'\.norm2\.', '.feed_forward_norm.'),
    (r'\.attn\.', '.attention.'),
    (r'\.mlp\.fc1\.', '.feed_forward.expand.'),
    (r'\.mlp\.fc2\.', '.feed_forward.project.'),
)

LAYOUTS = (
    Layout('official', r'^blocks\.\d+\.attn\.qkv\.', OFFICIAL, CLASSIFIERS),
    Layout('mmeffvit', r'^stem\.positions$', ()),
)
