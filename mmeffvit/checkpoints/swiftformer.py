"""Key tables of the SwiftFormer releases."""

from .rename import Layout, Table, as_convolution

# both layers of the stem, counted with their norms and activations
STEM: Table = (
    (r'^stem\.0\.', 'stem.0.conv.'),
    (r'^stem\.1\.', 'stem.0.norm.'),
    (r'^stem\.3\.', 'stem.1.conv.'),
    (r'^stem\.4\.', 'stem.1.norm.'),
)

# both releases: the classifier is not used here, and the blocks have other names
HEADS: Table = ((r'^(norm|head|dist_head|head_dist)\.', None),)
BLOCKS: Table = (
    (r'\.dwconv\.', '.depthwise.'),
    (r'\.pwconv1\.', '.expand.'),
    (r'\.pwconv2\.', '.project.'),
    (r'\.attn\.to_query\.', '.attention.query.'),
    (r'\.attn\.to_key\.', '.attention.key.'),
    (r'\.attn\.w_g$', '.attention.score.weight'),
    (r'\.attn\.[Pp]roj\.', '.attention.proj.'),
    (r'\.attn\.final\.', '.attention.out.'),
    (r'\.linear\.norm1\.', '.feed_forward.norm.'),
    (r'\.linear\.fc1\.', '.feed_forward.expand.'),
    (r'\.linear\.fc2\.', '.feed_forward.project.'),
    (r'\.layer_scale(\.gamma)?$', '.layer_scale.scale'),
    (r'\.layer_scale_1(\.gamma)?$', '.attention_scale.scale'),
    (r'\.layer_scale_2(\.gamma)?$', '.feed_forward_scale.scale'),
    (r'\.downsample\.proj\.', '.downsample.conv.'),
)

OFFICIAL: Table = (
    *HEADS,
    (r'^norm0\.', 'output_norms.0.'),  # only in checkpoints of the dense mode
    (r'^norm2\.', 'output_norms.1.'),
    (r'^norm4\.', 'output_norms.2.'),
    (r'^norm6\.', 'output_norms.3.'),
    (r'^patch_embed\.', 'stem.'),
    *STEM,
    (r'^network\.0\.', 'stages.0.blocks.'),
    (r'^network\.1\.', 'stages.1.downsample.'),
    (r'^network\.2\.', 'stages.1.blocks.'),
    (r'^network\.3\.', 'stages.2.downsample.'),
    (r'^network\.4\.', 'stages.2.blocks.'),
    (r'^network\.5\.', 'stages.3.downsample.'),
    (r'^network\.6\.', 'stages.3.blocks.'),
    *BLOCKS,
)

TIMM: Table = (*HEADS, *STEM, *BLOCKS)

HEAD: Table = (
    (r'^head\.', 'head.classifier.fc.'),
    (r'^(dist_head|head_dist)\.', 'head.distilled.fc.'),
    (r'^norm\.', 'head.norm.'),
)
# linear layers in both releases, 1x1 convolutions here
SHAPES = (
    (r'\.attention\.(query|key|proj|out)\.weight$', as_convolution),
    (r'\.attention\.score\.weight$', lambda weight: as_convolution(weight.T)),
)
LAYOUTS = (
    Layout('official', r'^network\..*\.pwconv1\.', OFFICIAL, HEAD, changes=SHAPES),
    Layout('timm', r'^stages\..*\.pwconv1\.', TIMM, HEAD, changes=SHAPES),
    Layout('mmeffvit', r'^stages\..*\.depthwise\.', ()),
)
