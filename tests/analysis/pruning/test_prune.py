"""Pruning of a small segmentor, as a user runs it."""

import shutil
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope

from mmeffvit.analysis.complexity.count import count
from mmeffvit.analysis.pruning.prune import METHODS, distillation_config, pruned_config
from mmeffvit.config.load import load_config
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.engine.evaluate import EvaluationOptions, evaluate
from tests.analysis.small import save_segmentor
from tests.conftest import message_of, run_command_here, succeeded
from tests.variants import sampled

LAYERS = [f'stages.{i}.blocks.0.attention' for i in range(4)]
HEADS = [2, 4, 5, 8]


@pytest.fixture(scope='module')
def segmentor(ade_shapes, tmp_path_factory) -> tuple[Path, Path]:
    return save_segmentor('mmeffvit.PVTv2MobiAtt', ade_shapes, tmp_path_factory.mktemp('mobile'))


def prune(config: Path, checkpoint: Path, out: Path, *arguments: object):
    return run_command_here('prune', config, checkpoint, '--out', out, *arguments)


@pytest.mark.parametrize('method', sampled(METHODS, ('uvc', 'competition')))
def test_a_pruned_model_has_the_kept_weights_and_is_tested_by_its_own_config(
    method, segmentor, tmp_path
):
    out = tmp_path / 'few.pth'
    out.write_bytes(b'an earlier one')
    printed = succeeded(prune(*segmentor, out, '--keep', 0.5, '--method', method))
    names = ['few.pth', 'few.py', 'few_distill.py']
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    saved = read_content(out)
    whole, few = read_content(segmentor[1])['state_dict'], saved['state_dict']
    assert list(few) == list(whole)
    pruning = saved['meta']['pruning']
    assert pruning['method'] == method
    for name, heads in zip(LAYERS, HEADS, strict=True):
        number, kept = pruning['heads'][name]
        assert (number, len(kept)) == (heads, round(heads / 2))
        columns = torch.tensor([4 * head + i for head in kept for i in range(4)])
        key = f'backbone.{name}.proj.weight'
        assert few[key].equal(whole[key][:, columns])
        rows = torch.cat([columns, 4 * heads + columns])  # keys, then values
        key = f'backbone.{name}.key_value.bias'
        assert few[key].equal(whole[key][rows])
        assert f'{name}: {len(kept)} of {heads} heads' in printed
    for name, (number, kept) in pruning['neurons'].items():
        assert 2 * len(kept) == number
        key = f'backbone.{name}.project.weight'
        assert few[key].equal(whole[key][:, kept])
        if method != 'random':
            norms = whole[key].square().sum((0, 2, 3))
            assert sorted(norms.argsort(descending=True)[: len(kept)].tolist()) == kept
    found = count(str(tmp_path / 'few.py')).total
    before = count(str(segmentor[0])).total
    assert found.macs < before.macs
    # buffers of batch norms are no parameters
    lost = sum(map(torch.numel, whole.values())) - sum(map(torch.numel, few.values()))
    assert before.parameters - found.parameters == lost > 0
    if method == 'uvc':
        _, metrics = evaluate(str(tmp_path / 'few.py'), str(out), EvaluationOptions(tmp_path / 'w'))
        assert metrics['mIoU'] > 0


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (('--keep', 0), '--keep is 0.0; choose a ratio above 0 and below 1'),
        (('--keep-neurons', 0), '--keep-neurons is 0.0; choose a ratio above 0 and at most 1'),
        (('--max-images', 0), '--max-images is 0; it must be at least 1'),
        (('--seed', -1), '--seed is -1'),
        (
            (
                '--cfg-options',
                'model.backbone.attention.type=mobile',
                'model.backbone.attention.competition=False',
            ),
            'do not compete: choose --method random or uvc',
        ),
    ],
)
def test_mistakes_end_in_one_message(arguments, words, segmentor, tmp_path):
    assert words in message_of(prune(*segmentor, tmp_path / 'few.pth', *arguments))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('name', ['epoch_1.pth', 'mmseg.pth', 'tiny.pth'])
def test_inputs_and_other_configs_are_never_replaced(name, segmentor):
    folder = segmentor[0].parent
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert 'would replace' in message_of(prune(*segmentor, folder / name, '--method', 'uvc'))
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_the_checkpoint_of_a_run_is_not_replaced_and_the_student_is_no_part_of_it(
    segmentor, tmp_path
):
    config, checkpoint = segmentor
    run = tmp_path / 'run'
    run.mkdir()
    shutil.copy(checkpoint, run / 'epoch_1.pth')
    settings = dict(load_from='start.pth', resume=True, work_dir=str(run))
    load_config(config, settings).dump(run / 'mmseg.py')
    options = '--method', 'uvc'
    words = message_of(run_command_here('prune', run, '--out', run / 'epoch_1.pth', *options))
    assert 'would replace' in words
    assert (run / 'epoch_1.pth').read_bytes() == checkpoint.read_bytes()
    (tmp_path / 'few.py').write_bytes(b'# caf\xe9')
    assert 'would replace' in message_of(prune(config, checkpoint, tmp_path / 'few.pth', *options))
    (tmp_path / 'few.py').unlink()
    succeeded(run_command_here('prune', run, '--out', tmp_path / 'few.pth', *options))
    for name in ('few.py', 'few_distill.py'):
        written = load_config(tmp_path / name)
        assert (written.load_from, written.resume, written.get('work_dir')) == (None, False, None)


def test_heads_alone_are_removed_on_request(segmentor, tmp_path):
    succeeded(prune(*segmentor, tmp_path / 'few.pth', '--method', 'uvc', '--keep-neurons', 1))
    counts = read_content(tmp_path / 'few.pth')['meta']['pruning']['neurons'].values()
    assert all(len(kept) == number for number, kept in counts)


def test_a_pruned_segmentor_is_the_student_of_the_maps_of_the_unpruned_one(segmentor, tmp_path):
    succeeded(prune(*segmentor, tmp_path / 'few.pth', '--method', 'random'))
    config = load_config(tmp_path / 'few_distill.py')
    init_default_scope(config.default_scope)
    model = MODELS.build(config.model)
    model.backbone.init_weights()
    model.teacher.init_weights()
    few, whole = (read_content(p)['state_dict'] for p in (tmp_path / 'few.pth', segmentor[1]))
    for backbone, state in ((model.backbone, few), (model.teacher, whole)):
        for key, value in backbone.state_dict().items():
            assert value.equal(state[f'backbone.{key}'])
    losses = model(torch.randn(1, 3, 64, 64), mode='loss')
    assert all(float(loss.detach()) > 0 for loss in losses.values())
    assert config.val_cfg is None


def test_a_teacher_keeps_its_weights_and_a_student_of_maps_has_no_hook_for_another():
    model = dict(type='DistilledClassifier', backbone={}, teacher=dict(type='A'), teacher_ckpt='b')
    assert pruned_config(Config(dict(model=model)), {}, {}).model.teacher_ckpt == 'b'
    hooks = [dict(type='mmeffvit.EMAHook'), dict(type='mmeffvit.TeacherHook')]
    config = Config(dict(model=dict(backbone={}, data_preprocessor={}), custom_hooks=hooks))
    student = distillation_config(config, config, Path('few.pth'), 'whole.pth')
    assert student.custom_hooks == hooks[:1]
