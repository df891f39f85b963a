"""PSPNet with EfficientFormerV2-S2-MobiAtt, 40K iterations on ADE20K.

No weights with Mobile-Attention are released: training starts from EfficientFormerV2's, without
position biases and talking heads. The downsampling has biases, so the output stride is 16. The
recipe is Semantic FPN's: see pspnet_efficientformerv2_s2_ade20k.py.
"""

_base_ = './pspnet_efficientformerv2_s2_ade20k.py'

model = dict(backbone=dict(attention=dict(type='mobile')))
