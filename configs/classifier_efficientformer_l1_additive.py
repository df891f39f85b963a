"""EfficientFormer-L1 with conv. encoders and efficient additive attention, 300 epochs, a teacher.

Row 3 of table 1 of arXiv:2303.15446. For the recipe see classifier_efficientformer_l1_self.py.
"""

_base_ = './classifier_efficientformer_l1_self.py'

model = dict(backbone=dict(attention='additive'))
