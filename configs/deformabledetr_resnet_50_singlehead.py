"""Deformable DETR with ResNet-50, single-head layers, 50 epochs on COCO.

In arXiv:2401.16456, table 9, it has 1.24 times the speed of the model with eight heads everywhere.
The paper does not name the backbone and does not say how the head meets the channels that are not
in it; see mmeffvit.SingleHeadDeformableDETR.
"""

_base_ = './deformabledetr_resnet_50.py'

model = dict(
    type='mmeffvit.SingleHeadDeformableDETR',
    single_head=dict(
        encoder=[1, 2, 3],
        decoder=[1, 2, 3],
        attended=64,
        attention='split',  # or 'projected'
        ffn_channels=None,  # 512 comes near the number of parameters in the paper
    ),
)
