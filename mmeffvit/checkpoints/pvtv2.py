"""Key tables of the PVTv2 releases."""

from .rename import Layout, Table, as_convolution

HEAD: Table = ((r'^head\.', None),)  # the classifier is not used here
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
    *HEAD,
    (r'^norm1\.', 'stages.0.norm.'),
    (r'^norm2\.', 'stages.1.norm.'),
    (r'^norm3\.', 'stages.2.norm.'),
    (r'^norm4\.', 'stages.3.norm.'),
    (r'^patch_embed1\.', 'stem.'),
    (r'^patch_embed2\.', 'stages.1.downsample.'),
    (r'^patch_embed3\.', 'stages.2.downsample.'),
    (r'^patch_embed4\.', 'stages.3.downsample.'),
    (r'^(stem|stages\.\d\.downsample)\.proj\.', r'\1.conv.'),
    (r'^block1\.', 'stages.0.blocks.'),
    (r'^block2\.', 'stages.1.blocks.'),
    (r'^block3\.', 'stages.2.blocks.'),
    (r'^block4\.', 'stages.3.blocks.'),
    *BLOCKS,
)

TIMM: Table = (
    *HEAD,
    (r'^patch_embed\.proj\.', 'stem.conv.'),
    (r'^patch_embed\.norm\.', 'stem.norm.'),
    (r'\.downsample\.proj\.', '.downsample.conv.'),
    *BLOCKS,
)

SHAPES = (
    (
        r'\.(attention\.(query|key_value|proj)|feed_forward\.(expand|project))\.weight$',
        as_convolution,
    ),
)
CLASSIFIER: Table = ((r'^head\.', 'head.classifier.fc.'),)
LAYOUTS = (
    Layout('official', r'^block1\.', OFFICIAL, CLASSIFIER, changes=SHAPES),
    Layout('timm', r'^stages\..*\.attn\.kv\.', TIMM, CLASSIFIER, changes=SHAPES),
    Layout('mmeffvit', r'^stages\..*\.key_value\.', ()),
)
