"""EfficientFormerV2-S0-MobiAtt learns the maps of EfficientFormerV2-S0, 12 epochs on COCO's images.

It starts from the weights of its teacher, in all layers but the attention that is replaced, and
keeps its batch norm statistics. Labels are not used.
"""

_base_ = [
    '../_base_/datasets/coco_detection.py',
    '../_base_/schedules/adamw_1x.py',
    '../_base_/runtime.py',
]

default_scope = 'mmdet'
released = dict(type='Pretrained', checkpoint='hf://timm/efficientformerv2_s0.snap_dist_in1k')
model = dict(
    type='mmeffvit.MapDistillation',
    data_preprocessor=dict(
        type='DetDataPreprocessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_size_divisor=32,
    ),
    backbone=dict(
        type='mmeffvit.EfficientFormerV2MobiAtt', arch='s0', norm_eval=True, init_cfg=released
    ),
    teacher=dict(type='mmeffvit.EfficientFormerV2', arch='s0', init_cfg=released),
)

val_cfg = val_dataloader = val_evaluator = None
test_cfg = test_dataloader = test_evaluator = None
