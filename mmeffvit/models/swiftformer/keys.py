"""Key tables of the SwiftFormer releases."""

from mmeffvit.models.checkpoints.rename import (
    CLASSIFIERS,
    NO_CLASSIFIER,
    STEM,
    Layout,
    Table,
    as_convolution,
)

# of both releases
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
    *NO_CLASSIFIER,
    # only in checkpoints of the dense mode
    *((rf'^norm{2 * i}\.', f'output_norms.{i}.') for i in range(4)),
    (r'^patch_embed\.', 'stem.'),
    *STEM,
    *((rf'^network\.{2 * i}\.', f'stages.{i}.blocks.') for i in range(4)),
    *((rf'^network\.{2 * i - 1}\.', f'stages.{i}.downsample.') for i in (1, 2, 3)),
    *BLOCKS,
)

TIMM: Table = (*NO_CLASSIFIER, *STEM, *BLOCKS)

# linear layers in both releases, 1x1 convolutions here
SHAPES = (
    (r'\.attention\.(query|key|proj|out)\.weight$', as_convolution),
    (r'\.attention\.score\.weight$', lambda weight: as_convolution(weight.T)),
)
LAYOUTS = (
    Layout('official', r'^network\..*\.pwconv1\.', OFFICIAL, CLASSIFIERS, changes=SHAPES),
    Layout('timm', r'^stages\..*\.pwconv1\.', TIMM, CLASSIFIERS, changes=SHAPES),
    Layout('mmeffvit', r'^stages\..*\.depthwise\.', ()),
)
