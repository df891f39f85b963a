"""Faster formats of a step leave weights, data and checkpoints as they are."""

import copy
import math
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.model import BaseModel
from mmengine.optim import AmpOptimWrapper
from mmengine.runner import Runner
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.engine import step_format
from mmeffvit.train.engine.compiled import CompileHook
from mmeffvit.train.engine.hooks import ResumableRandomnessHook
from mmeffvit.train.engine.step_format import FORMATS, StepFormatHook, Trials, fastest, in_format

IMAGES, EPOCHS = 8, 3
SIZES = ((8, 8), (12, 8), (16, 20), (24, 24), (8, 12), (32, 16))


class Record(nn.Module):
    """Remembers the layout and the precision of the maps that pass."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[bool, torch.dtype]] = []

    def forward(self, maps: Tensor) -> Tensor:
        is_last = maps.is_contiguous(memory_format=torch.channels_last)
        self.seen.append((is_last, maps.dtype))
        return maps


class Network(BaseModel):
    """Convolutions with norms and dropout."""

    def __init__(self) -> None:
        super().__init__()
        conv = nn.Conv2d(3, 8, 3, bias=False)
        self.backbone = nn.Sequential(conv, nn.BatchNorm2d(8), nn.ReLU(), Record())
        self.head = nn.Sequential(Record(), nn.Dropout(0.2), nn.Conv2d(8, 4, 1))

    @property
    def seen(self) -> list[tuple[bool, torch.dtype]]:
        return self.backbone[-1].seen

    def forward(self, inputs: Tensor, mode: str = 'tensor') -> dict[str, Tensor]:
        return dict(loss=(self.head(self.backbone(inputs)) - 1).square().mean())


class Pipeline:
    """Adds noise, and the number of images that it has seen in an epoch."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, index: int) -> dict[str, Tensor]:
        self.count += 1
        return dict(
            inputs=torch.full((3, 8, 8), self.count % IMAGES + random.random())
            + torch.rand(3, 8, 8)
        )


class Data(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.pipeline = Pipeline()

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self.pipeline(index)


def make_runner(work_dir: Path, hook: StepFormatHook | None, *, epochs: int = EPOCHS) -> Runner:
    torch.manual_seed(0)
    runner = Runner(
        model=Network(),
        work_dir=str(work_dir),
        experiment_name=f'{work_dir}-{epochs}-{hook and hook.name}',
        train_dataloader=dict(
            dataset=Data(),
            sampler=dict(type='DefaultSampler', shuffle=True),
            collate_fn=dict(type='default_collate'),
            batch_size=4,
        ),
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        optim_wrapper=dict(
            optimizer=dict(type='AdamW', lr=0.01),
            clip_grad=dict(max_norm=10.0),
            constructor='mmeffvit.MergedOptimWrapperConstructor',  # fused
        ),
        randomness=dict(seed=0),
        default_scope='mmengine',
    )
    for each in (ResumableRandomnessHook(), hook):
        if each is not None:
            runner.register_hook(each)
    return runner


def state_after(runner: Runner) -> dict:
    runner.train()
    return read_content(str(Path(runner.work_dir, f'epoch_{runner.max_epochs}.pth')))


def assert_same_tensors(found: object, expected: object) -> None:
    if isinstance(expected, Tensor):
        assert torch.equal(found, expected)
        assert found.stride() == expected.stride()
        assert found.dtype == expected.dtype
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_same_tensors(found[key], expected[key])


@pytest.fixture
def measured(monkeypatch) -> None:
    """Short runs are measured too."""
    monkeypatch.setattr(step_format, 'SHORTEST', 1)
    monkeypatch.setattr(step_format, 'SHORTEST_ROUNDED', 1)
    monkeypatch.setattr(step_format, 'supports_bfloat16', lambda: True)


def test_measuring_changes_nothing_that_training_starts_from(measured, monkeypatch, tmp_path):
    taken = []

    class Counted(Trials):
        def take(self, names: list[str], steps: int) -> None:
            super().take(names, steps)
            taken.append({name: len(trial.losses) for name, trial in self.trials.items()})

    monkeypatch.setattr(step_format, 'Trials', Counted)
    monkeypatch.setattr(step_format, 'saves_time', lambda seconds, name, other: name == 'bfloat16')
    monkeypatch.setattr(Counted, 'within_noise', lambda *_: False)
    stock = make_runner(tmp_path / 'stock', None)
    expected = state_after(stock)
    runner = make_runner(tmp_path / 'ours', StepFormatHook())
    found = state_after(runner)
    norms, stock_norms = (
        each.message_hub.get_scalar('train/grad_norm').data[0] for each in (runner, stock)
    )
    np.testing.assert_array_equal(norms, stock_norms)
    assert taken == [dict.fromkeys(FORMATS, 3), dict(plain=10, channels_last=3, bfloat16=10)]
    for section in ('state_dict', 'optimizer'):
        assert_same_tensors(found[section], expected[section])
    assert found['message_hub']['runtime_info']['step_format'] == 'plain'


def test_measuring_keeps_the_random_states_of_the_process(measured, tmp_path):
    runner = make_runner(tmp_path, None)
    runner.train()
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    StepFormatHook().choose(SimpleNamespace(
        deterministic=False, iter=0, max_iters=9, model=runner.model,
        optim_wrapper=runner.optim_wrapper, train_dataloader=runner.train_dataloader,
    ))  # fmt: skip
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1]
    assert torch.equal(torch.get_rng_state(), before[2])


@pytest.mark.parametrize('name', FORMATS)
def test_a_format_holds_for_training_losses_alone(name):
    model, images = Network(), torch.rand(2, 3, 8, 8)
    chosen = FORMATS[name]
    with in_format(model, chosen):
        model(inputs=images, mode='loss')['loss'].backward()
        model.eval()(inputs=images, mode='loss')
    model.train()(inputs=images, mode='loss')
    dtype = torch.bfloat16 if chosen.bfloat16 else torch.float32
    assert model.seen == [(chosen.channels_last, dtype)] + 2 * [(False, torch.float32)]
    assert model.head[0].seen == model.seen
    for parameter in model.parameters():
        assert parameter.dtype == parameter.grad.dtype == torch.float32
        assert parameter.is_contiguous()
        assert parameter.grad.is_contiguous()


def test_a_step_that_fails_leaves_its_format():
    model = Network()
    with in_format(model, FORMATS['bfloat16']):
        with pytest.raises(RuntimeError, match='channels'):
            model(inputs=torch.rand(2, 4, 8, 8), mode='loss')
        assert not torch.is_autocast_enabled('cpu')


def test_a_resumed_run_keeps_the_format_and_ends_where_the_first_does(
    measured, monkeypatch, tmp_path
):
    monkeypatch.setattr(step_format, 'saves_time', lambda seconds, name, other: name == 'bfloat16')
    monkeypatch.setattr(Trials, 'within_noise', lambda *_: True)
    expected = state_after(make_runner(tmp_path, StepFormatHook()))
    assert expected['message_hub']['runtime_info']['step_format'] == 'bfloat16'
    monkeypatch.setattr(step_format, 'Trials', lambda *_: pytest.fail('measured again'))
    resumed = make_runner(tmp_path / 'resumed', StepFormatHook())
    resumed._resume, resumed._load_from = True, str(tmp_path / 'epoch_1.pth')
    found = state_after(resumed)
    assert found['message_hub']['runtime_info']['step_format'] == 'bfloat16'
    assert set(resumed.model.seen) == {(True, torch.bfloat16)}
    for section in ('state_dict', 'optimizer'):
        assert_same_tensors(found[section], expected[section])


class FailingPart(nn.Conv2d):
    """Fails in bfloat16, and has other values with channels_last."""

    def forward(self, maps: Tensor) -> Tensor:
        if torch.is_autocast_enabled('cpu'):
            raise NotImplementedError('not implemented for BFloat16')
        is_last = maps.is_contiguous(memory_format=torch.channels_last)
        return super().forward(maps) * (0 if is_last else 1)


def test_formats_that_fail_or_have_another_loss_are_not_chosen(measured, tmp_path, log):
    runner = make_runner(tmp_path, None)
    runner.train()
    runner.model.backbone = nn.Sequential(FailingPart(3, 8, 3))
    trials = Trials(runner, list(FORMATS))
    trials.take(list(FORMATS), 2)
    seconds = trials.seconds()
    assert [name for name in seconds if seconds[name] < math.inf] == ['plain']
    assert fastest(seconds) == 'plain'
    assert log.text.count("no step in the format 'bfloat16'") == 1
    assert not trials.within_noise('bfloat16', 'plain')


def test_trials_train_as_the_run_would(tmp_path):
    runner = make_runner(tmp_path, None)
    runner.train()
    before = copy.deepcopy(runner.model.state_dict())
    trials = Trials(runner, ['plain', 'bfloat16'])
    trials.take(['plain', 'bfloat16'], 10)
    plain, rounded = trials.trials.values()
    for trial in (plain, rounded):
        assert trial.wrapper.optimizer.param_groups[0]['lr'] == 0.01
        assert trial.losses[-1] < trial.losses[0]
        assert not torch.equal(trial.model.head[-1].weight, before['head.2.weight'])
    assert plain.losses != rounded.losses
    assert_same_tensors(dict(runner.model.state_dict()), dict(before))


@pytest.mark.parametrize(('error', 'within'), [(0.0, True), (0.13, True), (0.17, False)])
def test_losses_of_a_format_that_rounds_stay_within_the_noise_of_seeds(
    error, within, tmp_path, log
):
    runner = make_runner(tmp_path, None)
    runner.train()
    trials = Trials(runner, ['plain', 'bfloat16'])
    noise = torch.randn(10, generator=torch.Generator().manual_seed(0)).tolist()
    trials.trials['plain'].losses = [2 + 0.3 * each for each in noise]
    trials.trials['bfloat16'].losses = [2 + error + 0.3 * each for each in noise]
    assert trials.within_noise('bfloat16', 'plain') == within
    assert ('less' if within else 'more') + ' than with another seed' in log.text
    for each in trials.trials.values():  # one, then both
        each.losses[0] = math.nan
        assert not trials.within_noise('bfloat16', 'plain')


class Rounds(nn.Module):
    """Adds a number less its multiple of 4096, which is all that bfloat16 keeps of it."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number, self.weight = number, nn.Parameter(torch.eye(8)[..., None, None])

    def forward(self, maps: Tensor) -> Tensor:
        numbers = torch.full_like(maps, self.number)
        return maps + nn.functional.conv2d(numbers, self.weight) - self.number // 4096 * 4096


@pytest.mark.parametrize(('number', 'name'), [(0.0, 'bfloat16'), (4111.0, 'plain')])
def test_bfloat16_is_used_where_it_is_faster_and_learns_the_same(
    number, name, measured, monkeypatch, tmp_path
):
    monkeypatch.setattr(step_format, 'saves_time', lambda seconds, name, other: name == 'bfloat16')
    monkeypatch.setattr(step_format, 'AGREEMENT', math.inf)
    runner = make_runner(tmp_path, None)
    runner.train()
    runner.model.backbone = nn.Sequential(*runner.model.backbone, Rounds(number))
    assert StepFormatHook().choose(
        SimpleNamespace(
            deterministic=False, iter=0, max_iters=9, model=runner.model,
            optim_wrapper=runner.build_optim_wrapper(dict(optimizer=dict(type='SGD', lr=0.001))),
            train_dataloader=runner.train_dataloader,
        )
    ) == name  # fmt: skip


@pytest.mark.parametrize(
    ('seconds', 'name'),
    [
        (dict(plain=1.0, channels_last=0.8, bfloat16=0.4), 'channels_last'),  # bfloat16 rounds
        (dict(plain=1.0, channels_last=0.95), 'plain'),  # may be chance
        (dict(plain=math.inf, channels_last=math.inf), 'plain'),
    ],
)
def test_a_faster_layout_is_chosen_if_it_is_clearly_faster(seconds, name):
    assert fastest(seconds) == name


def test_a_format_that_cannot_be_is_a_user_error():
    with pytest.raises(UserError, match="'bf16'; choose one of auto, plain"):
        StepFormatHook('bf16')
    mixed = SimpleNamespace(optim_wrapper=AmpOptimWrapper.__new__(AmpOptimWrapper))
    with pytest.raises(UserError, match='choose one'):
        StepFormatHook('bfloat16').before_train(mixed)


def test_compiled_parts_are_compiled_for_one_size_and_for_any_and_not_in_validation():
    model, counter = Network(), CompileCounter()
    model.backbone = model.backbone[:3]
    expected = copy.deepcopy(model)
    hook = CompileHook(['backbone', 'neck'], backend=counter)
    runner = SimpleNamespace(model=model)
    hook.before_train(runner)
    for size in SIZES:
        images = torch.rand(2, 3, *size)
        torch.testing.assert_close(model.backbone(images), expected.backbone(images))
    compiled = counter.frame_count
    assert compiled <= 3  # for the first size, for any height, for any size
    hook.before_val(runner)
    model.eval().backbone(images)
    hook.after_val(runner)
    model.train().backbone(images)
    assert counter.frame_count == compiled
    assert 'forward' not in vars(model.backbone)
    with pytest.raises(UserError, match='Network has no neck to compile'):
        CompileHook(['neck']).before_train(runner)
