"""Key tables of the PVTv2 releases."""

from mmeffvit.models.checkpoints.rename import NO_CLASSIFIER, Layout, Table, as_convolution

BLOCKS: Table = (
    (r'\.norm1\.', '.attention_norm.'),
    (r'\.norm2\.', '.feed_forward_norm.'),
    (r'\.attn\.q\.', '.attention.query.'),
    (r'\.attn\.kv\.', '.attention.key_value.'),
    (r'\.attn\.sr\.', '.attention.reduce.'),
    (r'\.attn\.norm\.', '.attention.norm.'),
    (r'\.attn\.proj\.', '.attention.proj.'),
    (r'\.mlp\.fc1\.', '.feed_forward.expand.'),
    (r'\.mlp\.(dwconv\.)+', '.feed_forward.depthwise.'),
    (r'\.mlp\.fc2\.', '.feed_forward.project.'),
)

OFFICIAL: Table = (
    *NO_CLASSIFIER,
    *((rf'^norm{i + 1}\.', f'stages.{i}.norm.') for i in range(4)),
    *((rf'^block{i + 1}\.', f'stages.{i}.blocks.') for i in range(4)),
    (r'^patch_embed1\.', 'stem.'),
    *((rf'^patch_embed{i + 1}\.', f'stages.{i}.downsample.') for i in (1, 2, 3)),
    (r'^(stem|stages\.\d\.downsample)\.proj\.', r'\1.conv.'),
    *BLOCKS,
)

TIMM: Table = (
    *NO_CLASSIFIER,
    (r'^patch_embed\.proj\.', 'stem.conv.'),
    (r'^patch_embed\.norm\.', 'stem.norm.'),
    (r'\.downsample\.proj\.', '.downsample.conv.'),
    *BLOCKS,
)

LINEAR = r'\.(attention\.(query|key_value|proj)|feed_forward\.(expand|project))\.weight$'
SHAPES = ((LINEAR, as_convolution),)
CLASSIFIER: Table = ((r'^head\.', 'head.classifier.fc.'),)
LAYOUTS = (
    Layout('official', r'^block1\.', OFFICIAL, CLASSIFIER, changes=SHAPES),
    Layout('timm', r'^stages\..*\.attn\.kv\.', TIMM, CLASSIFIER, changes=SHAPES),
    Layout('mmeffvit', r'^stages\..*\.key_value\.', ()),
)
