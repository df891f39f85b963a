"""The merged, fused optimizer step takes mmengine's steps and keeps its checkpoints."""

import copy

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.optim.scheduler import CosineAnnealingLR, LinearLR
from torch import Tensor, nn

from mmeffvit.config.load import own_configs
from mmeffvit.train.engine.optimizer import merged
from mmeffvit.utils.files import resource_dir

MERGED = 'mmeffvit.MergedOptimWrapperConstructor'
STEPS = 20


class Network(nn.Module):
    """Parameters under the names and of the kinds that the recipes treat differently."""

    def __init__(self) -> None:
        super().__init__()
        # no bias before the norm: its gradient is rounding, which Adam would scale up
        self.backbone = nn.Sequential(nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU())
        self.neck = nn.Sequential(nn.Conv2d(6, 6, 3, groups=6), nn.GroupNorm(2, 6))
        self.sampling_offsets = nn.Linear(6, 4)
        self.head = nn.Linear(4, 2)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.sampling_offsets(self.neck(self.backbone(x)).mean(dim=(2, 3))))


SCHEDULES = sorted(resource_dir('configs').glob('_base_/schedules/*.py'))
# configs that change more than the numbers of their schedule
OTHERS = [
    own_configs()[name] for name in ('maskrcnn_swiftformer_xs_shapes', 'segformer_shvit_s1_ade20k')
]
NO_NORM_DECAY = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.1),
    paramwise_cfg=dict(norm_decay_mult=0.0),
)


class Run:
    """Training on noise, with a warm-up that is followed by a cosine schedule."""

    def __init__(self, settings: dict, network: nn.Module, *, is_merged: bool) -> None:
        settings = copy.deepcopy(settings)
        settings['constructor'] = MERGED if is_merged else 'DefaultOptimWrapperConstructor'
        self.network = network
        self.wrapper = build_optim_wrapper(network, settings)
        self.schedule = [
            LinearLR(self.wrapper, start_factor=0.1, by_epoch=False, begin=0, end=5),
            CosineAnnealingLR(
                self.wrapper, T_max=STEPS, by_epoch=False, begin=5, eta_min_ratio=0.1
            ),
        ]

    def train(self, first: int, last: int) -> list[Tensor]:
        for step in range(first, last):
            noise = torch.Generator().manual_seed(step)
            loss = self.network(torch.randn(2, 3, 8, 8, generator=noise)).square().mean()
            self.wrapper.update_params(loss)
            for scheduler in self.schedule:
                scheduler.step()
        return [parameter.detach().clone() for parameter in self.network.parameters()]

    def state(self) -> dict:
        schedule = [scheduler.state_dict() for scheduler in self.schedule]
        return copy.deepcopy(dict(optimizer=self.wrapper.state_dict(), schedule=schedule))

    def load(self, state: dict) -> None:
        self.wrapper.load_state_dict(state['optimizer'])
        for scheduler, saved in zip(self.schedule, state['schedule'], strict=True):
            scheduler.load_state_dict(saved)


def assert_same(values: list[Tensor], expected: list[Tensor]) -> None:
    # biases start at zero and are of the order of the learning rate
    for value, wanted in zip(values, expected, strict=True):
        torch.testing.assert_close(value, wanted, rtol=1e-6, atol=1e-7)


def network() -> Network:
    torch.manual_seed(0)
    return Network()


@pytest.mark.parametrize('path', [*SCHEDULES, *OTHERS], ids=lambda path: path.stem)
def test_every_recipe_takes_the_steps_of_mmengine(path):
    settings = Config.fromfile(path).optim_wrapper.to_dict()
    expected = Run(settings, network(), is_merged=False).train(0, STEPS)
    ours = Run(settings, network(), is_merged=True).train(0, STEPS)
    assert_same(ours, expected)
    assert not torch.equal(ours[-1], list(network().parameters())[-1])


@pytest.mark.parametrize('is_merged', [False, True])
def test_checkpoints_resume_in_both_directions(is_merged):
    first = Run(NO_NORM_DECAY, network(), is_merged=is_merged)
    first.train(0, 8)
    other = Run(NO_NORM_DECAY, copy.deepcopy(first.network), is_merged=not is_merged)
    other.load(first.state())
    assert other.state().keys() == first.state().keys()
    expected = first.train(8, STEPS)
    assert_same(other.train(8, STEPS), expected)


def test_equal_groups_are_merged_within_a_step_alone():
    settings = dict(
        type='OptimWrapper',
        optimizer=dict(
            type='AdamW', lr=1e-3, weight_decay=0.1, betas=[0.9, 0.99]
        ),  # a list, as configs have
        paramwise_cfg=dict(norm_decay_mult=0.0, custom_keys=dict(backbone=dict(lr_mult=0.1))),
    )
    run = Run(settings, network(), is_merged=True)
    optimizer = run.wrapper.optimizer
    groups = optimizer.param_groups
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(len(optimizer.param_groups)))
    run.train(0, 1)
    trained = [p for p in run.network.parameters() if p.requires_grad]
    # with a tenth of the learning rate, norms, and the rest
    assert seen == [3]
    assert optimizer.param_groups is groups
    assert len(groups) == len(trained)
    assert [id(p) for group in groups for p in group['params']] == list(map(id, trained))


def test_a_step_that_raises_leaves_the_groups_for_the_next():
    run = Run(
        NO_NORM_DECAY,
        network(),
        is_merged=True,
    )
    run.train(0, 1)
    optimizer = run.wrapper.optimizer
    groups = optimizer.param_groups
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    run.train(1, 2)
    assert optimizer.param_groups is groups


@pytest.mark.parametrize(
    ('optimizer', 'is_fused'),
    [
        (dict(type='AdamW', lr=1e-3), True),
        (dict(type='SGD', lr=1e-3, momentum=0.9), True),
        (dict(type='AdamW', lr=1e-3, foreach=True), None),
        (dict(type='RMSprop', lr=1e-3), None),
    ],
)
def test_the_step_is_fused_where_torch_can_and_nothing_else_is_set(optimizer, is_fused):
    run = Run(dict(type='OptimWrapper', optimizer=optimizer), network(), is_merged=True)
    assert all(group.get('fused') is is_fused for group in run.wrapper.param_groups)


def test_settings_that_differ_stay_apart():
    a, b, c = (nn.Parameter(torch.zeros(1)) for _ in range(3))
    groups = [dict(params=[a], lr=1.0), dict(params=[b], lr=2.0), dict(params=[c], lr=1.0)]
    assert merged(groups) == [dict(params=[a, c], lr=1.0), dict(params=[b], lr=2.0)]
