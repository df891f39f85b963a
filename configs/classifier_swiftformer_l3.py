"""SwiftFormer-L3 on ImageNet-1k, 300 epochs, with a teacher and mixed images.

The recipe follows the authors' code: see classifier_swiftformer_s.py.
"""

_base_ = './classifier_swiftformer_l1.py'

model = dict(backbone=dict(arch='l3'), head=dict(in_channels=512))
