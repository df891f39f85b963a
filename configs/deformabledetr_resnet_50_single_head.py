"""Deformable DETR with ResNet-50, single-head layers, 50 epochs on COCO.

In arXiv:2401.16456, table 9, it is 1.24 times as fast as the model with eight heads everywhere. The
paper specifies neither the backbone nor how the head is combined with the other channels; see
mmeffvit.SingleHeadDeformableDETR.
"""

_base_ = './deformabledetr_resnet_50.py'

model = dict(
    type='mmeffvit.SingleHeadDeformableDETR',
    single_head=dict(
        encoder=[1, 2, 3],
        decoder=[1, 2, 3],
        attended=64,
        attention='split',  # or 'projected'
        ffn_channels=None,  # with 512, the number of parameters is close to the paper's
    ),
)
