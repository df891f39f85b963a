"""The tools as a user runs them: a complete job, and user errors that end in one message."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.device import utils as mmengine_device

from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import read_content
from tests.conftest import ROOT, message_of, output_of, rejected, run_command_here, succeeded

SHAPES = ROOT / 'configs' / 'maskrcnn_swiftformer_xs_shapes.py'
FAST = [
    'train_cfg.max_epochs=1',
    'train_dataloader.batch_size=4',
    'default_hooks.logger.interval=1',
]


@pytest.fixture(scope='module')
def trained(shapes, tmp_path_factory) -> Path:
    work_dir = tmp_path_factory.mktemp('trained')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mmengine_device, 'DEVICE', 'mps')  # as on a Mac, where the CPU is chosen
        printed = output_of(
            'train', SHAPES, '--work-dir', work_dir, '--seed', 0, '--deterministic', '--device',
            'cpu', '--auto-scale-lr', '--verbose', '--cfg-options', f'data_root={shapes}/', *FAST,
        )  # fmt: skip
    torch.use_deterministic_algorithms(False)
    assert re.search(r'Epoch\(train\).*eta: ', printed)
    fraction = re.search(r'coco/bbox_mAP: ([\d.]+)', printed)[1]
    assert f'in percent: box AP {100 * float(fraction):.1f} %, mask AP ' in printed
    # batch size 4 with a recipe for 8: half the learning rate
    assert re.search(r'batch size of 8 and the current batch size is 4.*by 0\.5', printed)
    return work_dir


def run_test(config: Path, checkpoint: Path, shapes: Path, *arguments: object):
    data = ('--cfg-options', f'data_root={shapes}/')
    return run_command_here('test', config, checkpoint, *arguments, *data)


@pytest.mark.slow
def test_tta_merges_flipped_masks(trained, shapes, tmp_path):
    printed = succeeded(
        run_test(SHAPES, trained / 'epoch_1.pth', shapes, '--work-dir', tmp_path, '--tta')
    )
    assert re.search(r', mask AP [\d.]+ %\n', printed)


@pytest.mark.slow
def test_a_test_changes_nothing_of_its_run_and_training_again_overwrites_nothing(
    trained, shapes, tmp_path
):
    before = {path: path.read_bytes() for path in trained.iterdir() if path.is_file()}
    data = ('--cfg-options', f'data_root={shapes}/')
    output_of('test', trained, '--tta', '--show-dir', tmp_path / 'drawn', *data)
    assert len(list((tmp_path / 'drawn').rglob('*.png'))) > 0
    for target in (trained, SHAPES):
        message = rejected('train', target, '--work-dir', trained, *data)
        assert f'{trained} has a run already' in message
    log = trained / 'console.log'
    assert {p: p.read_bytes() for p in before if p != log} == {
        p: content for p, content in before.items() if p != log
    }


@pytest.mark.slow
def test_a_missing_data_set_is_named_and_debug_shows_the_traceback(tmp_path):
    arguments = (SHAPES, '--work-dir', tmp_path, '--cfg-options', 'data_root=nowhere/')
    path = 'nowhere/annotations/instances_train2017.json'
    message = rejected('train', *arguments)
    assert re.search(f'annotation file .*{path}.*DATA_ROOT.*data_root=', message)
    with pytest.raises(UserError, match='annotation file'):  # Python prints the traceback
        run_command_here('train', *arguments, '--debug')


@pytest.mark.slow
@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (('--device', 'cuda:7'), 'cuda:7.* from cpu'),
        (('--seed', 2**32 - 1), '--seed is 4294967295; give 0 to 2,147,483,647'),
        (('--cfg-options', 'model.backbone.init_cfg.type=Pretrained',
          'model.backbone.init_cfg.checkpoint=weights.pth'), r'weights\.pth'),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(arguments, message, shapes, tmp_path, monkeypatch):
    monkeypatch.setenv('DATA_ROOT', f'{shapes}/')
    assert re.search(message, rejected('train', SHAPES, '--work-dir', tmp_path, *arguments))


@pytest.mark.slow
def test_a_checkpoint_of_other_classes_is_named(trained, shapes, tmp_path):
    other = tmp_path / 'other.pth'
    checkpoint = read_content(trained / 'epoch_1.pth')
    checkpoint['meta']['dataset_meta']['classes'] = ('cat', 'dog')
    torch.save(checkpoint, other)
    message = message_of(run_test(SHAPES, other, shapes))
    assert re.search(r'other\.pth was trained on the classes cat, dog .*circle', message)


def test_unflipping_undoes_a_flip():
    from mmdet.structures import DetDataSample
    from mmengine.structures import InstanceData

    from mmeffvit.models.detection.tta import unflip

    masks = torch.zeros(1, 6, 8, dtype=torch.bool)
    masks[0, 1:3, 0:2] = True
    view = DetDataSample(metainfo=dict(flip=True, flip_direction='horizontal', ori_shape=(6, 8)))
    view.pred_instances = InstanceData(
        bboxes=torch.tensor([[0.0, 1.0, 2.0, 3.0]]),
        scores=torch.ones(1),
        labels=torch.zeros(1, dtype=torch.long),
        masks=masks,
        kernels=torch.ones(1, 4),  # of RTMDet-Ins
    )
    instances = unflip(view)
    assert instances.bboxes.tolist() == [[6, 1, 8, 3]]
    assert np.argwhere(instances.masks[0].numpy())[[0, -1]].tolist() == [[1, 6], [2, 7]]
    view.set_metainfo(dict(flip=False))
    assert sorted(unflip(view).keys()) == sorted(instances.keys())


@pytest.mark.slow
def test_diverged_weights_are_rejected_unless_forced(trained, shapes, tmp_path):
    content = read_content(trained / 'epoch_1.pth')
    key = 'rpn_head.rpn_cls.bias'
    content['state_dict'][key][0] = float('nan')
    path = tmp_path / 'diverged.pth'
    torch.save(content, path)
    message = message_of(run_test(SHAPES, path, shapes, '--work-dir', tmp_path / 'run'))
    assert f'NaN or infinite values in 1 tensor: {key}' in message
    succeeded(run_test(SHAPES, path, shapes, '--work-dir', tmp_path / 'run', '--allow-non-finite'))
