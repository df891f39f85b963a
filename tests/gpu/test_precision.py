"""Mixed precision: losses and gradients of every head are near those in float32."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from tests.configs.models import batch_of, build_as_trained, load, num_classes, random_label_maps
from tests.gpu.test_devices import FEW, HEADS, without_dropout
from tests.variants import sampled

# of 11 and of 8 bits: relative error of the loss, cosine of the gradients
LIMITS = {torch.float16: (0.02, 0.95), torch.bfloat16: (0.05, 0.9)}
PLACES = [
    ('cpu', torch.bfloat16),  # a CPU without float16 takes minutes
    pytest.param('cuda', torch.bfloat16, marks=pytest.mark.gpu),
    pytest.param('cuda', torch.float16, marks=pytest.mark.gpu),
]


def loss_and_gradients(
    model: nn.Module, batch: dict, device: str, dtype: torch.dtype | None
) -> tuple[float, Tensor]:
    torch.manual_seed(0)  # of the sampled boxes
    model = deepcopy(model).to(device).train()
    with torch.autocast(device, dtype, enabled=dtype is not None):
        data = model.data_preprocessor(deepcopy(batch), training=True)
        loss, _ = model.parse_losses(model(**data, mode='loss'))
    # as mmengine does: small gradients would vanish in float16
    scaler = torch.amp.GradScaler(device, init_scale=2.0**10, enabled=dtype == torch.float16)
    scaler.scale(loss).backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    assert all(gradient.dtype == torch.float32 for gradient in gradients)
    return loss.item(), torch.cat(gradients).double().cpu() / scaler.get_scale()


@pytest.mark.slow
@pytest.mark.parametrize(('device', 'dtype'), PLACES)
@pytest.mark.parametrize('name', sampled(HEADS, FEW))
def test_a_head_in_half_precision_is_near_float32(name: str, device: str, dtype: torch.dtype):
    config = load(name)
    model = without_dropout(build_as_trained(config))
    batch = batch_of(model, config)
    if config.default_scope == 'mmseg':
        # batch norm of pooled maps: for two images it is a sign, for equal ones rounding
        batch = random_label_maps(num_classes(model), number=4)
        for index, image in enumerate(batch['inputs']):
            image //= index + 1
    loss, gradients = loss_and_gradients(model, batch, device, None)
    half_loss, half_gradients = loss_and_gradients(model, batch, device, dtype)
    limit, least = LIMITS[dtype]
    assert half_loss == pytest.approx(loss, rel=limit)
    assert half_gradients.isfinite().all()
    nearness = torch.cosine_similarity(half_gradients, gradients, dim=0)
    if nearness <= least:  # targets that are assigned by predictions jump
        noisy = loss_and_gradients(with_noise(model, torch.finfo(dtype).eps), batch, device, None)
        assert nearness > torch.cosine_similarity(noisy[1], gradients, dim=0)


def with_noise(model: nn.Module, deviation: float) -> nn.Module:
    """A copy whose parameters have relative errors of a deviation."""
    model = deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + deviation * torch.randn_like(parameter))
    return model
