"""The base of all segmentors: a backbone and one head, tested on whole images."""

default_scope = 'mmseg'

model = dict(
    type='EncoderDecoder',
    data_preprocessor=dict(
        type='SegDataPreProcessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_val=0,
        seg_pad_val=255,
    ),
    test_cfg=dict(mode='whole'),
)

visualizer = dict(type='SegLocalVisualizer', vis_backends=[dict(type='LocalVisBackend')])
tta_model = dict(type='SegTTAModel')
