"""PVTv2: sizes, initial values, both attentions."""

import torch

from mmeffvit.models import PVTv2


def test_weights_of_the_plain_form_fit_mobile_attention(tmp_path, log):
    torch.save(PVTv2('b0').state_dict(), tmp_path / 'plain.pth')
    mobile = PVTv2('b0', mobile_stages=(0, 1, 2))
    mobile.load_pretrained(tmp_path / 'plain.pth')
    assert '24 ignored, 0 missing' in log.text  # 6 blocks with a convolution and a norm
