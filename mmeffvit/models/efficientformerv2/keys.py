"""Key tables of the EfficientFormerV2 releases: backbones, and models of mmdet 2 and mmseg 0."""

from mmeffvit.models.checkpoints.rename import (
    CLASSIFIERS,
    NO_CLASSIFIER,
    STEM,
    Layout,
    Table,
    as_column,
)

# inside an attention module both releases agree but for the names of convolution and norm
ATTENTION: Table = (
    (r'\.token_mixer\.', '.attention.'),
    (r'\.attn\.', '.attention.'),
    (r'\.attention\.stride_conv\.', '.attention.reduce.'),
    (r'\.attention\.q\.local\.(0\.)?', '.attention.query_local.'),
    (r'\.attention\.q\.proj\.', '.attention.query.'),
    (r'\.attention\.q\.', '.attention.query.'),
    (r'\.attention\.k\.', '.attention.key.'),
    (r'\.attention\.v\.', '.attention.value.'),
    (r'\.attention\.v_local\.', '.attention.value_local.'),
    (r'\.attention\.proj\.', '.attention.project.'),
    (r'\.attention\.talking_head1\.', '.attention.mixer.mix_scores.'),
    (r'\.attention\.talking_head2\.', '.attention.mixer.mix_weights.'),
    (r'\.attention\.attention_biases$', '.attention.mixer.position_bias.table'),
)

CONV_NORM = r'(query|key|value|value_local|reduce)'
OFFICIAL: Table = (
    *NO_CLASSIFIER,
    (r'\.attention_bias_idxs$', None),  # indices into the tables, computed here
    (r'^patch_embed\.', 'stem.'),
    *STEM,
    *((rf'^network\.{2 * i - 1}\.', f'stages.{i}.downsample.') for i in (1, 2)),
    (r'^(stages\.\d\.downsample)\.proj\.', r'\1.conv.'),
    (r'^network\.5\.conv\.', 'stages.3.downsample.local.conv.'),
    (r'^network\.5\.bn\.', 'stages.3.downsample.local.norm.'),
    (r'^network\.5\.attn\.', 'stages.3.downsample.attn.'),
    *((rf'^network\.{2 * i}\.', f'stages.{i}.blocks.') for i in range(4)),
    *ATTENTION,
    (rf'\.attention\.{CONV_NORM}\.0\.', r'.attention.\1.conv.'),
    (rf'\.attention\.{CONV_NORM}\.1\.', r'.attention.\1.norm.'),
    (r'\.attention\.project\.1\.', '.attention.project.conv.'),  # 0 is the activation
    (r'\.attention\.project\.2\.', '.attention.project.norm.'),
    (r'\.layer_scale_1$', '.attention_scale.scale'),
    (r'\.layer_scale_2$', '.feed_forward_scale.scale'),
    (r'\.mlp\.fc1\.', '.feed_forward.expand.conv.'),
    (r'\.mlp\.norm1\.', '.feed_forward.expand.norm.'),
    (r'\.mlp\.mid\.', '.feed_forward.depthwise.conv.'),
    (r'\.mlp\.mid_norm\.', '.feed_forward.depthwise.norm.'),
    (r'\.mlp\.fc2\.', '.feed_forward.project.conv.'),
    (r'\.mlp\.norm2\.', '.feed_forward.project.norm.'),
)

TIMM: Table = (
    *NO_CLASSIFIER,
    (r'^stem\.conv1\.', 'stem.0.'),
    (r'^stem\.conv2\.', 'stem.1.'),
    (r'\.bn\.', '.norm.'),
    (r'^stages\.3\.downsample\.conv\.', 'stages.3.downsample.local.'),
    (r'^stages\.([12])\.downsample\.conv\.', r'stages.\1.downsample.'),
    *ATTENTION,
    (r'\.ls1\.gamma$', '.attention_scale.scale'),
    (r'\.ls2\.gamma$', '.feed_forward_scale.scale'),
    (r'\.mlp\.fc1\.', '.feed_forward.expand.'),
    (r'\.mlp\.mid\.', '.feed_forward.depthwise.'),
    (r'\.mlp\.fc2\.', '.feed_forward.project.'),
)

# the authors keep the classifier's tables beside those that their detectors and segmentors use
DENSE: Table = (
    (r'\.attention_(biases|bias_idxs|bias_idxs_seg)$', None),
    (r'\.attention_biases_seg$', '.attention_biases'),
    *OFFICIAL,
)
SHAPES = ((r'_scale\.scale$', as_column),)
DENSE_MARKER = r'^backbone\.network\..*\.attention_biases_seg$'
LAYOUTS = (
    Layout('official', r'^network\..*\.mlp\.fc1\.', OFFICIAL, CLASSIFIERS, changes=SHAPES),
    Layout('timm', r'^stages\..*\.ls2\.gamma$', TIMM, CLASSIFIERS, changes=SHAPES),
    Layout('mmdet 2', DENSE_MARKER, DENSE, (), 'backbone.'),
    Layout('mmeffvit', r'^stages\..*\.feed_forward_scale\.', ()),
)
