"""Layout and precision of steps leave weights and checkpoints as they are."""

from types import SimpleNamespace

import pytest
import torch
from mmengine.model import BaseModel
from mmengine.optim import AmpOptimWrapper
from torch import Tensor, nn

from mmeffvit.cli.train import make_parser, set_steps
from mmeffvit.errors import UserError
from mmeffvit.train.engine.step_format import StepFormatHook


class Network(BaseModel):
    """A convolution that remembers the layout and the precision of its maps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.seen: list[tuple[bool, torch.dtype]] = []

    def forward(self, inputs: Tensor, mode: str = 'tensor') -> dict[str, Tensor]:
        maps = self.conv(inputs)
        is_last = maps.is_contiguous(memory_format=torch.channels_last)
        self.seen.append((is_last, maps.dtype))
        return dict(loss=maps.square().mean())


@pytest.mark.parametrize(
    ('options', 'expected'),
    [
        ((), (True, torch.float32)),  # on a CPU
        (('--no-channels-last',), (False, torch.float32)),
        (('--amp-dtype', 'bfloat16'), (True, torch.bfloat16)),
        (('--amp', '--amp-dtype', 'bfloat16', '--no-channels-last'), (False, torch.bfloat16)),
    ],
)
def test_options_choose_the_format_of_training_losses_alone(options, expected, monkeypatch):
    monkeypatch.setattr('mmeffvit.train.engine.step_format.get_device', lambda: 'cpu')
    values = vars(make_parser().parse_args(['x', *options]))
    set_steps(values)
    chosen = values['cfg_options']
    hook = StepFormatHook(chosen.get('channels_last'), chosen.get('amp_dtype'))
    model, images = Network(), torch.rand(2, 3, 8, 8)
    hook.before_train(SimpleNamespace(model=model, optim_wrapper=None))
    model(inputs=images, mode='loss')['loss'].backward()
    model.eval()(inputs=images, mode='loss')
    model.train()(inputs=images)
    hook.after_train(None)
    model(inputs=images, mode='loss')
    assert model.seen == [expected] + 3 * [(False, torch.float32)]
    for each in model.parameters():
        assert each.dtype == each.grad.dtype == torch.float32
        assert each.is_contiguous()
        assert each.grad.is_contiguous()
    assert not values['amp']


def test_a_step_that_fails_leaves_its_format():
    model = Network()
    StepFormatHook(amp_dtype='bfloat16').before_train(SimpleNamespace(model=model, optim_wrapper=0))
    with pytest.raises(RuntimeError, match='channels'):
        model(inputs=torch.rand(2, 4, 8, 8), mode='loss')
    assert not torch.is_autocast_enabled('cpu')


def test_a_precision_that_cannot_be_is_a_user_error():
    with pytest.raises(UserError, match="'bf16'"):
        StepFormatHook(amp_dtype='bf16')
    mixed = SimpleNamespace(optim_wrapper=AmpOptimWrapper.__new__(AmpOptimWrapper))
    with pytest.raises(UserError, match='AmpOptimWrapper'):
        StepFormatHook(amp_dtype='bfloat16').before_train(mixed)
