"""Key tables of the MobileViTv2 releases."""

from .rename import Layout, Table

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

LAYOUTS = (
    Layout('official', r'^conv_1\.block\.', OFFICIAL),
    Layout('timm', r'^stages\.\d\.0\.conv1_1x1\.', TIMM),
    Layout('mmeffvit', r'^stages\..*\.encoders\.|^stages\.0\.downsample\.expand\.', ()),
)
