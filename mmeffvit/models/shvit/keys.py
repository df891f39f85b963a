"""Key tables of the SHViT releases: backbones, and the detectors of mmdet 2."""

from mmeffvit.models.checkpoints.rename import NO_CLASSIFIER, Layout, Table

# inside the steps of a stage both releases agree
STEPS: Table = (
    (r'\.c\.weight$', '.conv.weight'),
    (r'\.bn\.', '.norm.'),
    (r'\.conv\.m\.', '.depthwise.'),
    (r'\.mixer\.m\.pre_norm\.', '.attention.norm.'),
    (r'\.mixer\.m\.qkv\.', '.attention.qkv.'),
    (r'\.mixer\.m\.proj\.1\.', '.attention.proj.'),
    (r'\.ffn\.m\.pw1\.', '.feed_forward.expand.'),
    (r'\.ffn\.m\.pw2\.', '.feed_forward.project.'),
    (r'\.downsample\.(0|3)\.m\.', r'.downsample.\1.depthwise.'),
    (r'\.downsample\.(1|4)\.m\.pw1\.', r'.downsample.\1.feed_forward.expand.'),
    (r'\.downsample\.(1|4)\.m\.pw2\.', r'.downsample.\1.feed_forward.project.'),
    (r'\.downsample\.[01]\.', '.downsample.before.'),
    (r'\.downsample\.[34]\.', '.downsample.after.'),
    (r'\.downsample\.2\.conv1\.', '.downsample.merge.expand.'),
    (r'\.downsample\.2\.conv2\.', '.downsample.merge.depthwise.'),
    (r'\.downsample\.2\.conv3\.', '.downsample.merge.project.'),
    (r'\.downsample\.2\.se\.fc1\.', '.downsample.merge.excite.reduce.'),
    (r'\.downsample\.2\.se\.fc2\.', '.downsample.merge.excite.expand.'),
)

MAX_DEPTH = 7  # of S4's second stage
OFFICIAL: Table = (
    *NO_CLASSIFIER,
    (r'^patch_embed\.', 'stem.'),
    (r'^blocks1\.', 'stages.0.blocks.'),
    # the first three entries of a later stage lead down to it
    *((rf'^blocks{s + 1}\.0\.(0|1)\.', rf'stages.{s}.downsample.\1.') for s in (1, 2)),
    *((rf'^blocks{s + 1}\.1\.', f'stages.{s}.downsample.2.') for s in (1, 2)),
    *((rf'^blocks{s + 1}\.2\.0\.', f'stages.{s}.downsample.3.') for s in (1, 2)),
    *((rf'^blocks{s + 1}\.2\.1\.', f'stages.{s}.downsample.4.') for s in (1, 2)),
    *(
        (rf'^blocks{s + 1}\.{i + 3}\.', f'stages.{s}.blocks.{i}.')
        for s in (1, 2)
        for i in range(MAX_DEPTH)
    ),
    *STEPS,
)

TIMM: Table = (*NO_CLASSIFIER, (r'^patch_embed\.', 'stem.'), *STEPS)

CLASSIFIER: Table = (
    (r'^head\.bn\.', 'head.classifier.norm.'),
    (r'^head\.l\.', 'head.classifier.fc.'),
    (r'^head_dist\.bn\.', 'head.distilled.norm.'),
    (r'^head_dist\.l\.', 'head.distilled.fc.'),
)


def pyramid_table(num_finer: int) -> Table:
    """The authors' pyramid with ``num_finer`` levels below the finest map of the backbone."""
    return (
        (r'^neck\.lateral_convs\.(\d)\.conv\.', r'neck.lateral.\1.'),
        (r'^neck\.extra_trans_convs\.(\d)\.conv\.', r'neck.upsample.\1.'),
        # made in the order of their strides, from the finest on
        (r'^neck\.extra_fpn_convs\.(\d)\.conv\.', r'neck.output.\1.'),
        *((rf'^neck\.fpn_convs\.{i}\.conv\.', f'neck.output.{i + num_finer}.') for i in range(3)),
        (r'^neck\.fpn_convs\.3\.conv\.', 'neck.coarser.'),
    )


LAYOUTS = (
    Layout('official', r'^blocks1\.', OFFICIAL, CLASSIFIER),
    Layout('timm', r'^stages\..*\.m\.', TIMM, CLASSIFIER),
    Layout('mmdet 2', r'^neck\.extra_trans_convs\.1\.', OFFICIAL, pyramid_table(2), 'backbone.'),
    Layout('mmdet 2', r'^neck\.extra_trans_convs\.0\.', OFFICIAL, pyramid_table(1), 'backbone.'),
    Layout('mmeffvit', r'^stages\..*\.depthwise\.', ()),
)
