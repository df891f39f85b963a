"""AdamW for 50 epochs, learning rate divided by ten after the 40th, like Deformable DETR's.

The backbone and the projections for reference points and sampling offsets have a tenth of it.
"""

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=50, val_interval=1)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=2e-4, weight_decay=1e-4),
    clip_grad=dict(max_norm=0.1, norm_type=2),
    paramwise_cfg=dict(
        custom_keys=dict(
            backbone=dict(lr_mult=0.1),
            sampling_offsets=dict(lr_mult=0.1),
            reference_points=dict(lr_mult=0.1),
        ),
    ),
)
param_scheduler = [
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=50, milestones=[40], gamma=0.1),
]
auto_scale_lr = dict(enable=False, base_batch_size=32)  # 8 GPUs with 4 each
