"""SegFormer's decoder with SHViT-S1 and a light neck at stride 8, 160K iterations on ADE20K.

The neck of GFLite adds the level at stride 8 and fuses all levels by depth-wise 5x5
convolutions, at two thirds of the MACs of `segformer_shvit_s1_ade20k`.
"""

_base_ = ['./segformer_shvit_s1_ade20k.py']

model = dict(
    neck=dict(
        _delete_=True,
        type='mmeffvit.LightPAN',
        in_channels=[128, 224, 320],
        out_channels=64,
        finer=True,  # stride 8, below 16, 32 and 64
    ),
    decode_head=dict(in_channels=[64, 64, 64, 64]),
)
