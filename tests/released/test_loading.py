"""Released files load wherever checkpoints do, and wrong files are rejected."""

import re
from pathlib import Path

import pytest
import timm
import torch

from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints import Checkpoint, CheckpointError, fit
from mmeffvit.train.checks.run import load_checked
from mmeffvit.zoo.identify import naming
from tests.configs.models import build_empty
from tests.conftest import ROOT, output_of, rejected
from tests.released import cvnets, efficientformerv2, files, shvit

NARROW = 'ssdlite_mobilevitv2_050'


def release_of(name: str) -> Checkpoint:
    """A released file, without values."""
    with torch.device('meta'):
        return files.checkpoint_of(cvnets.RELEASES[name].network().state_dict())


@pytest.fixture(scope='module')
def ssd(tmp_path_factory) -> Path:
    """The released file of the narrowest SSDLite, with random weights."""
    network = files.with_random_weights(cvnets.RELEASES[NARROW].network())
    return files.save_cvnets(
        network, tmp_path_factory.mktemp('ssd') / 'coco-ssd-mobilevitv2-0.5.pt'
    )


@pytest.mark.parametrize(
    ('file', 'config', 'complaint'),
    [
        ('ssdlite_mobilevitv2_075', NARROW, 'of another shape'),
        ('pspnet_mobilevitv2_050_ade20k', 'pspnet_mobilevitv2_050_voc12', 'of another shape'),
        ('deeplabv3_mobilevitv2_100_voc12', 'pspnet_mobilevitv2_100_voc12', 'not in the model'),
        (NARROW, 'retinanet_shvit_s4', 'missing in the file'),
    ],
)
def test_a_file_of_another_width_data_set_or_head_is_rejected(file, config, complaint):
    message = rf'^x\.pt is {file} in the cvnets layout and does not fit the model.*{complaint}'
    with pytest.raises(CheckpointError, match=message), naming():
        fit(build_empty(config), release_of(file))


def test_new_classes_keep_initial_values_and_another_width_is_still_rejected():
    released = release_of('pspnet_mobilevitv2_050_ade20k')
    _, report = fit(build_empty('pspnet_mobilevitv2_050_voc12'), released, new_classes=True)
    assert sorted(report.reinitialized) == sorted(
        f'{head}_head.conv_seg.{kind}'
        for head in ('decode', 'auxiliary') for kind in ('weight', 'bias')
    )  # fmt: skip
    assert (len(report.loaded), report.missing) == (303, ())
    with pytest.raises(CheckpointError, match='of another shape'):
        fit(build_empty('pspnet_mobilevitv2_075_voc12'), released, new_classes=True)


@pytest.mark.parametrize(
    ('file', 'kept'),
    [
        (lambda: cvnets.Encoder(0.5), r''),
        (lambda: timm.create_model('shvit_s1'), r''),
        (cvnets.RELEASES[NARROW].network, r'encoder\.'),
        (shvit.RELEASES['retinanet_shvit_s4'], r'backbone\.'),
        (efficientformerv2.RELEASES['maskrcnn_efficientformerv2_s2'], r'backbone\.'),
    ],
)  # fmt: skip
def test_a_backbone_or_classifier_in_place_of_a_model_is_named(file, kept):
    with torch.device('meta'):
        state = {key: value for key, value in file().state_dict().items() if re.match(kept, key)}
    message = r'^x\.pt holds only a backbone: the neck and the heads of the model are missing'
    with pytest.raises(CheckpointError, match=message):
        fit(build_empty(NARROW), files.checkpoint_of(state))


def test_a_segmentor_without_its_auxiliary_head_ignores_that_of_the_file():
    model = build_empty('deeplabv3_mobilevitv2_050_voc12')
    del model.auxiliary_head
    _, report = fit(model, release_of('deeplabv3_mobilevitv2_050_voc12'))
    assert len(report.dropped) == 8
    assert len(report.loaded) == 305


def test_the_tools_load_a_released_file_directly(ssd, shapes, tmp_path):
    config, coco = ROOT / f'configs/{NARROW}.py', files.as_coco(shapes, tmp_path / 'coco')
    data = ['--cfg-options', f'data_root={coco}', 'test_dataloader.num_workers=0',
            'test_dataloader.persistent_workers=False']  # fmt: skip
    printed = output_of('test', config, ssd, '--work-dir', tmp_path / 'run', *data)
    assert '352 tensors loaded, 12 of them reordered, 0 ignored, 0 missing' in printed
    assert 'box AP' in printed
    picture = files.save_picture(tmp_path / 'p.png', 160, 128)
    output_of('predict', config, ssd, picture, '--out-dir', tmp_path / 'out')
    assert (tmp_path / 'out' / 'p.png').is_file()
    wide = ROOT / 'configs/ssdlite_mobilevitv2_075.py'
    for command in (
        ('test', wide, ssd, *data),
        ('predict', wide, ssd, picture),
        ('export', wide, ssd, tmp_path / 'x.onnx'),
        ('train', wide, '--no-check', *data, f'load_from={ssd}'),
    ):
        fault = f'{ssd} is {NARROW} in the cvnets layout and does not fit'
        assert fault in rejected(*command)
    fault = 'is a released model, not a checkpoint of a run'
    assert fault in rejected('train', config, '--resume', ssd, *data)


def test_functions_of_mmdet_and_mmseg_load_a_released_file(ssd):
    from mmdet.apis import init_detector

    config = str(ROOT / f'configs/{NARROW}.py')
    model = init_detector(config, f'mmeffvit://{ssd}', device='cpu')
    source = torch.load(ssd, weights_only=True)
    rows = source['ssd_heads.0.loc_cls_layer.pw_conv.block.conv.bias'].view(6, 85)
    ours = model.bbox_head.predictors[0][2].bias.detach().view(6, 85)
    assert torch.equal(ours[:, :4], rows[:, :4])
    assert torch.equal(ours[:, 84], rows[:, 4])  # the background is last here
    assert torch.equal(ours[:, 4:84], rows[:, 5:])


# of transformers' converter, one after the other
TRANSFORMERS = [
    (r'\.(block|aspp_pool)(?=\.)', ''),
    (r'^seg_head(\.aspp\.aspp_layer)?', lambda m: f'segmentation_head{".aspp" * bool(m[1])}'),
    (r'^encoder\.conv_1', 'mobilevitv2.conv_stem'),
    (r'^encoder\.layer_(\d)', lambda m: f'mobilevitv2.encoder.layer.{int(m[1]) - 1}'),
    (r'(?<=layer\.[01])\.(?=\d)', '.layer.'),
    (r'(?<=layer\.[234])\.0\.', '.downsampling_layer.'),
    (r'\.1\.local_rep\.0', '.conv_kxk'),
    (r'\.1\.local_rep\.1', '.conv_1x1'),
    (r'\.1\.conv_proj', '.conv_projection'),
    (r'\.1\.global_rep\.\d+\.(?=\w+$)', '.layernorm.'),  # after all units
    (r'\.1\.global_rep', '.transformer.layer'),
    (r'pre_norm_attn\.0', 'layernorm_before'),
    (r'pre_norm_ffn\.0', 'layernorm_after'),
    (r'pre_norm_attn\.1', 'attention'),
    (r'pre_norm_ffn\.1', 'ffn.conv1'),
    (r'pre_norm_ffn\.3', 'ffn.conv2'),
    (r'exp_1x1', 'expand_1x1'),
    (r'red_1x1', 'reduce_1x1'),
    (r'\bconv\.', 'convolution.'),
    (r'\bnorm\.', 'normalization.'),
]


def transformers_key(key: str) -> str:
    """A key of cvnets' DeepLabv3 in transformers."""
    for pattern, replacement in TRANSFORMERS:
        key = re.sub(pattern, replacement, key)
    return key


def test_deeplabv3_in_the_layout_of_transformers_is_that_of_cvnets():
    name = 'deeplabv3_mobilevitv2_100_voc12'
    with torch.device('meta'):
        theirs = cvnets.RELEASES[name].network().state_dict()
    state = {transformers_key(key): value for key, value in theirs.items() if 'aux_head' not in key}
    assert len(state) == 305
    _, report = fit(build_empty(name), files.checkpoint_of(state))
    assert (report.layout, len(report.loaded), report.dropped) == ('transformers', 305, ())
    assert len(report.missing) == 8
    assert all(key.startswith('auxiliary_head.') for key in report.missing)
    by_transformers, by_cvnets = (files.checkpoint_of(each).weights for each in (state, theirs))
    assert all(by_cvnets[key] is value for key, value in by_transformers.items())


def test_a_clean_file_may_lack_the_auxiliary_head_in_tests_only():
    """As one that is converted from transformers."""
    from tests.configs.models import build, load

    name = 'pspnet_mobilevitv2_050_voc12'
    source, model = files.with_random_weights(build(load(name))), build(load(name))
    kept = {k: v for k, v in source.state_dict().items() if not k.startswith('auxiliary_head.')}
    clean = files.checkpoint_of(kept)
    with pytest.raises(UserError, match=r'missing in the file \(7\): auxiliary_head'):
        load_checked(model, clean, None, 'train')
    load_checked(model, clean, None)
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in kept.items())
