"""AdamW for 40,000 iterations, polynomial learning rate decay: Semantic FPN's usual schedule."""

train_cfg = dict(type='IterBasedTrainLoop', max_iters=40_000, val_interval=4000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=2e-4, weight_decay=1e-4),
)
param_scheduler = [
    dict(type='PolyLR', power=0.9, eta_min=1e-6, by_epoch=False, begin=0, end=40_000),
]
auto_scale_lr = dict(enable=False, base_batch_size=32)  # 8 GPUs with 4 each
