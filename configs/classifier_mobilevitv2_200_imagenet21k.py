"""MobileViTv2-2.0 pre-trained on ImageNet-21k-P, 80 epochs, from its ImageNet-1k weights.

The recipe follows the authors' code, for batch size 4096. ImageNet-21k-P is the version of winter
2021 with 10,450 classes, in `train` and `val` of data/imagenet21k_p with a folder per class. The
rest is as on ImageNet-1k: see classifier_mobilevitv2_200.py.
"""

_base_ = './classifier_mobilevitv2_200.py'

data_root = '{{$DATA_ROOT:data/imagenet21k_p}}/'
load_from = 'hf://timm/mobilevitv2_200.cvnets_in1k'  # but the classifier
model = dict(data_preprocessor=dict(num_classes=10450), head=dict(num_classes=10450))
train_cfg = dict(max_epochs=80)
optim_wrapper = dict(optimizer=dict(lr=3e-4))
param_scheduler = [
    dict(type='CosineAnnealingLR', by_epoch=True, begin=0, end=80, T_max=80, eta_min=1e-6),
]
train_dataloader = dict(
    batch_size=512,
    dataset=dict(type='CustomDataset', data_root=data_root),
)
val_dataloader = dict(dataset=dict(type='CustomDataset', data_root=data_root))
test_dataloader = val_dataloader
auto_scale_lr = dict(base_batch_size=4096)
