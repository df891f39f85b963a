"""Classifiers give the scores of the authors' models with the same weights and pictures."""

import numpy as np
import pytest
import torch
from mmengine.dataset import Compose
from PIL import Image

import mmeffvit
from mmeffvit.models.checkpoints import load_into, open_checkpoint
from mmeffvit.zoo.convert import convert, write
from tests.configs.models import load
from tests.models.checkpoints.spelling import official_keys
from tests.models.classification.models import build
from tests.models.parity import TOLERANCE, randomized
from tests.models.test_parity import FAMILIES, FIRST

SIDE = 96


@pytest.mark.parametrize(
    ('family', 'arch', 'distilled'), [*((*case, False) for case in FIRST), ('DeiT', 't', True)]
)
def test_scores_are_those_of_timm(timm, tmp_path, family, arch, distilled):
    known, size = FAMILIES[family], {}
    model = load(f'classifier_{family.lower()}_{arch}').model
    if known.has_timm_size:
        size, model.backbone.resolution = dict(img_size=SIDE), SIDE
    name = known.timm_name(arch)
    if distilled:
        name = name.replace('tiny', 'tiny_distilled')
        model.backbone.class_tokens, model.head.distilled = 2, True
    theirs, ours = randomized(timm.create_model(name, **size)), build(model).eval()
    state = theirs.state_dict()
    x = torch.randn(2, 3, SIDE, SIDE)
    with torch.no_grad():
        expected = theirs(x)
    for layout, keys in (('official', official_keys(known.timm, state)), ('timm', None)):
        path = tmp_path / f'{layout}.pth'
        released = {keys[key] if keys else key: value for key, value in state.items()}
        torch.save({'model': released}, path)
        checkpoint = open_checkpoint(path)
        report = load_into(ours, checkpoint)
        found = 'official' if family == 'DeiT' else layout  # timm has the official keys
        assert (report.layout, report.missing, report.resized) == (found, (), ())
        with torch.no_grad():
            error = (ours(x) - expected).abs().max()
        assert error <= TOLERANCE * expected.abs().max()
        # mmengine's own loading, to which a run leaves it, reshapes nothing
        ours.load_state_dict(checkpoint.weights, strict=True)
        for parameter in ours.parameters():
            parameter.data.zero_()


def test_a_converted_classifier_is_a_model_and_a_backbone(timm, tmp_path):
    theirs = randomized(timm.create_model('mobilevitv2_050'))
    torch.save(theirs.state_dict(), tmp_path / 'timm.pth')
    conversion = convert(tmp_path / 'timm.pth', classifier=True)
    assert (conversion.family, conversion.report.layout) == ('classifier_mobilevitv2_050', 'timm')
    assert (len(conversion.tensors), conversion.report.dropped) == (len(theirs.state_dict()), ())
    write(conversion, tmp_path / 'ours.safetensors')
    model = mmeffvit.get_model('classifier_mobilevitv2_050', tmp_path / 'ours.safetensors').eval()
    x = torch.randn(1, 3, SIDE, SIDE)
    with torch.no_grad():
        assert torch.allclose(model(x), theirs(x), rtol=1e-4, atol=1e-4)
    assert len(model.dataset_meta['classes']) == 1000
    backbone = convert(tmp_path / 'ours.safetensors')
    assert (backbone.family, backbone.arch) == ('MobileViTv2', '050')
    assert all(key.startswith('head.') for key in backbone.report.dropped)


# of every family: resized short side, crop, whether mean and std are ImageNet's
PICTURES = [
    ('swiftformer_xs', 256, 224, True),
    ('efficientformerv2_s0_mobile_300e', 256, 224, True),
    ('shvit_s4', 292, 256, True),
    ('shvit_s4_384', 438, 384, True),
    ('mobilevitv2_050', 288, 256, False),
    ('mobilevitv2_200_from21k_384', 384, 384, False),
]


@pytest.mark.parametrize(('name', 'side', 'crop', 'normalized'), PICTURES)
def test_pictures_are_prepared_as_by_torchvision_in_the_official_codes(
    timm, tmp_path, name, side, crop, normalized
):
    from torchvision import transforms

    steps = [
        transforms.Resize(side, interpolation=transforms.InterpolationMode.BICUBIC),
        transforms.CenterCrop(crop),
        transforms.PILToTensor(),
        transforms.ConvertImageDtype(torch.float32),
    ]
    if normalized:
        steps.append(transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    pixels = np.random.default_rng(0).integers(0, 256, (333, 500, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels)
    picture.save(tmp_path / 'picture.png')
    expected = transforms.Compose(steps)(picture)

    config = load(f'classifier_{name}')
    preprocessor = build(dict(config.model.data_preprocessor))
    item = Compose(config.test_dataloader.dataset.pipeline)(
        dict(img_path=str(tmp_path / 'picture.png'), gt_label=0)
    )
    found = preprocessor(dict(inputs=item['inputs'][None], data_samples=None))['inputs'][0]
    assert found.shape == expected.shape
    assert (found - expected).abs().max() < 1e-4  # of values up to 2.6
