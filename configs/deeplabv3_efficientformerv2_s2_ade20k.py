"""DeepLabv3 with EfficientFormerV2-S2, 40K iterations on ADE20K.

The recipe follows Semantic FPN with the same backbone. Dilation keeps the last stage at stride
16: position biases do not reach stride 8.
"""

_base_ = [
    '_base_/segmentation/deeplabv3.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_40k.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    data_preprocessor=dict(size=(512, 512)),
    backbone=dict(
        type='mmeffvit.EfficientFormerV2',
        arch='s2',
        output_stride=16,
        out_indices=(2, 3),
        resolution=512,
        drop_path_rate=0.02,
        init_cfg=dict(
            type='Pretrained', checkpoint='hf://timm/efficientformerv2_s2.snap_dist_in1k'
        ),
    ),
    decode_head=dict(in_channels=288, dilations=(6, 12, 18)),
    auxiliary_head=dict(in_channels=144, channels=128),
)
