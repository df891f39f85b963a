"""Networks of mmpretrain with layers of our papers, which their tables put into them."""

from typing import Any

from mmpretrain.models.backbones import EfficientFormer as PlainEfficientFormer
from mmpretrain.models.backbones import MobileViT as PlainMobileViT
from mmpretrain.models.backbones.efficientformer import Meta3D, Meta4D
from mmpretrain.models.backbones.vision_transformer import TransformerEncoderLayer
from mmpretrain.models.utils import MultiheadAttention
from torch import Tensor, nn

from mmeffvit.models.mobilevitv2.attention import SeparableSelfAttention
from mmeffvit.models.swiftformer.attention import EfficientAdditiveAttention
from mmeffvit.models.swiftformer.backbone import ConvEncoder
from mmeffvit.registries import MODELS

SIZES = {'s': 'small', 'xs': 'x_small', 'xxs': 'xx_small'}


class OnTokens(nn.Module):
    """A layer for maps, on tokens as a map of one column: (B, N, C) -> (B, N, C)."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(1, 2).unsqueeze(3)).flatten(2).transpose(1, 2)


@MODELS.register_module()
class MobileViT(PlainMobileViT):
    """MobileViT (arXiv:2110.02178) with another attention, all else as it is: arXiv:2206.02680.

    Args:
        arch: 's', 'xs' or 'xxs'.
        attention: 'separable', or 'self' with `num_heads`.
        num_heads: 4 in MobileViT; 1 in appendix E of arXiv:2206.02680.
        options: Options of mmpretrain's ``MobileViT``.

    Shape:
        (B, 3, H, W) -> a tuple of maps, the last one with 4 times the channels of its stage.

    Raises:
        ValueError: If ``arch`` or ``attention`` is not one of its choices.
    """

    def __init__(
        self, arch: str = 's', *, attention: str = 'separable', num_heads: int = 4, **options: Any
    ) -> None:
        if arch not in SIZES or attention not in ('separable', 'self'):
            raise ValueError(
                f'arch is {arch!r} and attention {attention!r}; choose from {tuple(SIZES)} and '
                "('separable', 'self')"
            )
        super().__init__(SIZES[arch], **options)
        for layer in filter(lambda m: isinstance(m, TransformerEncoderLayer), self.modules()):
            if attention == 'separable':  # tokens are those of one pixel in every patch
                layer.attn = OnTokens(SeparableSelfAttention(layer.embed_dims, patch_size=1))
            else:
                layer.attn = MultiheadAttention(layer.embed_dims, num_heads)


@MODELS.register_module()
class EfficientFormer(PlainEfficientFormer):
    """EfficientFormer (arXiv:2206.01191) on its way to SwiftFormer: arXiv:2303.15446, table 1.

    Conv. encoders (equation 7) replace the pooling blocks, then efficient additive attention
    replaces self-attention in the last ones.

    Args:
        arch: 'l1', 'l3' or 'l7'.
        attention: 'self' or 'additive'.
        options: Options of mmpretrain's ``EfficientFormer``.

    Shape:
        See mmpretrain's ``EfficientFormer``; maps of any size with 'additive', of 7 x 7 in the last
        stage with 'self'.

    Raises:
        ValueError: If ``attention`` is not one of its choices.
    """

    def __init__(self, arch: str = 'l1', *, attention: str = 'self', **options: Any) -> None:
        if attention not in ('self', 'additive'):
            raise ValueError(f"attention is {attention!r}; choose one of ('self', 'additive')")
        super().__init__(arch, **options)
        for stage, channels in zip(self.network, self.embed_dims, strict=True):
            for index, block in enumerate(stage):
                if isinstance(block, Meta4D):
                    stage[index] = ConvEncoder(channels, expansion=4)
                elif isinstance(block, Meta3D) and attention == 'additive':
                    block.token_mixer = OnTokens(EfficientAdditiveAttention(channels))
