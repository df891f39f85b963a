"""Options of a resumed run are applied, or refused by their name."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mmeffvit.config.load import load_config
from mmeffvit.data.detect import Found
from mmeffvit.data.prepare import PrepareOptions
from mmeffvit.data.tree import Match
from mmeffvit.errors import UserError
from mmeffvit.train.folder.options import FinetuneOptions
from mmeffvit.train.folder.recipe import Overrides
from mmeffvit.train.folder.resume import record, resumed
from mmeffvit.train.folder.write_config import Teaching

CONFIG = """
processes = 2
epochs = 5
iterations = 10
train_dataloader = dict(batch_size=4)
train_cfg = dict(max_epochs=epochs)
"""
OPTIONS = FinetuneOptions(
    overrides=Overrides(epochs=5, freeze=1, batch='auto'),
    reading=PrepareOptions(
        fraction=0.5,
        images=Path('a'),
        masks=Path('b'),
        found=Found('masks', Match(({Path('c'): 1},), 'its folders')),
    ),
    weights='none',
    seed=3,
    teaching=Teaching(0.7, 'teacher.py', None, ('cwd',)),
)


@pytest.fixture
def config(tmp_path) -> Path:
    path = tmp_path / 'model.py'
    path.write_text(CONFIG)
    record(tmp_path / 'data', path, OPTIONS)
    content = dict(
        state_dict={'a': torch.zeros(1)}, meta=dict(epoch=3, iter=30), optimizer={},
        message_hub=dict(log_scalars={}, runtime_info={}, resumed_keys={}),
    )  # fmt: skip
    (tmp_path / 'run').mkdir()
    torch.save(content, tmp_path / 'run' / 'epoch_3.pth')
    return path


def resume(config: Path, **changes: object) -> FinetuneOptions:
    return resumed(
        config.with_name('data'), config, replace(OPTIONS, **{'resume': 'auto', **changes})
    )


def test_the_same_options_and_fewer_resume_with_the_seed_of_the_run(config):
    assert resume(config).seed == 3
    fewer = dict(overrides=Overrides(), reading=PrepareOptions(), weights='auto', seed=None)
    assert resume(config, **fewer).seed == 3
    assert config.read_text() == CONFIG


def test_the_precision_and_the_settings_of_the_run_are_kept_unless_given(config):
    settings = dict(amp_dtype='bfloat16', channels_last=True)
    record(config.with_name('data'), config, replace(OPTIONS, amp=False, cfg_options=settings))
    found = resume(config)
    assert (found.amp, found.cfg_options) == (False, settings)
    found = resume(config, amp=True, cfg_options=dict(channels_last=False))
    assert (found.amp, found.cfg_options) == (True, settings | dict(channels_last=False))


def test_numbers_that_the_run_has_by_default_may_be_given(config):
    resume(config, overrides=Overrides(processes=2, batch=8, epochs=5))
    assert config.read_text() == CONFIG


@pytest.mark.parametrize('resume_from', ['auto', 'epoch_3.pth'])
def test_more_epochs_are_written_to_the_config(config, resume_from, log):
    start = 'auto' if resume_from == 'auto' else str(config.parent / 'run' / resume_from)
    resume(config, overrides=Overrides(epochs=9), resume=start)
    assert load_config(config).train_cfg.max_epochs == 9
    assert '9 epochs instead of 5' in log.text
    resume(config, overrides=Overrides(steps=61))
    assert load_config(config).train_cfg.max_epochs == 7
    with pytest.raises(UserError, match=r'--epochs is 2, but .* has finished 3'):
        resume(config, overrides=Overrides(epochs=2))
    assert load_config(config).train_cfg.max_epochs == 7


def test_a_config_that_was_edited_is_not_rewritten(config):
    config.write_text(CONFIG.replace('epochs = 5', 'epochs = 4 + 1'))
    with pytest.raises(UserError, match='has no line "epochs = N"'):
        resume(config, overrides=Overrides(epochs=9))


@pytest.mark.parametrize(
    ('changes', 'option'),
    [
        (dict(overrides=Overrides(image_size=64)), '--image-size is 64'),
        (dict(overrides=Overrides(batch=6)), '--batch is 6.*started with auto'),
        (dict(overrides=Overrides(processes=1)), '--nproc-per-node is 1.*started with 2'),
        (dict(overrides=Overrides(patience=4)), '--patience is 4'),
        (dict(overrides=Overrides(accumulate=4)), '--grad-accum-steps is 4'),
        (dict(overrides=Overrides(freeze=2)), '--freeze is 2.*started with 1'),
        (dict(overrides=Overrides(balance=True)), '--class-balanced is True'),
        (dict(overrides=Overrides(lr=0.1)), '--lr is 0.1.*started with the default'),
        (dict(reading=PrepareOptions(format='voc')), '--format is voc'),
        (dict(reading=PrepareOptions(fraction=0.4)), '--val-fraction is 0.4.*started with 0.5'),
        (dict(reading=PrepareOptions(skip_broken=True)), '--skip-broken is True'),
        (dict(reading=PrepareOptions(images=Path('c'))), '--images is c.*started with a'),
        (dict(weights='other.pth'), '--weights is other.pth.*started with none'),
        (dict(seed=4), '--seed is 4.*started with 3'),
        (dict(teaching=replace(OPTIONS.teaching, sure=0.5)), '--sure-score is 0.5'),
        (dict(teaching=replace(OPTIONS.teaching, losses=('crosskd',))), '--losses is'),
        (
            dict(teaching=replace(OPTIONS.teaching, teacher='b.py')),
            'the teacher is b.py.*with teacher.py.*Give the same, change it',
        ),
        (dict(teaching=replace(OPTIONS.teaching, checkpoint='c.pth')), 'the checkpoint is c.pth'),
    ],
)
def test_other_options_that_differ_are_refused_by_name(config, changes, option):
    with pytest.raises(UserError, match=option):
        resume(config, **changes)


def test_another_dataset_is_refused(config):
    with pytest.raises(UserError, match=r'is on .*data, not on .*other'):
        resumed(config.with_name('other'), config, replace(OPTIONS, resume='auto'))
