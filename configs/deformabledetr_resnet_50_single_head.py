"""Deformable DETR with ResNet-50, single-head layers, 50 epochs on COCO.

In arXiv:2401.16456, table 9, it is 1.24 times as fast as the model with eight heads everywhere. The
paper specifies neither the backbone nor how the head is combined with the other channels. This
reading is SHViT's own layer: the other channels bypass attention, the feed-forward stays. It has
39.23 M parameters, 1.057 times the printed 37.1 M, and 1.015 times with `ffn_channels=512`; the
nearest one is deformabledetr_resnet_50_single_head_projected.py. For the recipe see
deformabledetr_resnet_50.py.
"""

_base_ = './deformabledetr_resnet_50.py'

model = dict(
    type='mmeffvit.SingleHeadDeformableDETR',
    single_head=dict(
        encoder=[1, 2, 3],
        decoder=[1, 2, 3],
        attended=64,
        attention='split',  # or 'projected'
        ffn_channels=None,  # like the other layers
    ),
)
