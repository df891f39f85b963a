"""Every released model loads into our config and gives the same predictions."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import pytest
import torch
from torch import Tensor, nn

from mmeffvit.checkpoints.models import RELEASE, as_ours
from mmeffvit.inference.model import load_predictor
from tests.configs.models import build_empty
from tests.conftest import ROOT
from tests.released import cvnets, files, shvit

TOLERANCE = 1e-4  # relative to the largest value, in float32
SHVITS = {'retinanet_shvit_s4': shvit.RetinaNet, 'maskrcnn_shvit_s4': shvit.MaskRCNN}
RESIZE = 'test_dataloader.dataset.pipeline.1.scale'


@pytest.mark.parametrize('release', cvnets.RELEASES, ids=lambda release: release.config)
def test_every_file_of_cvnets_fits_its_config_tensor_by_tensor(release):
    with torch.device('meta'):
        theirs = release.network().state_dict()
    assert len(theirs) == release.tensors
    size = sum(value.numel() * value.element_size() for value in theirs.values())
    assert size / 1e6 == pytest.approx(release.megabytes, abs=0.06)  # as listed, to one digit
    content = as_ours(theirs)
    assert content['meta'][RELEASE]['model'] == release.config
    assert content['meta'][RELEASE]['layout'] == 'cvnets'
    ours = build_empty(release.config).state_dict()
    assert shapes(content['state_dict']) == shapes(ours)


@pytest.mark.parametrize('name', SHVITS)
def test_the_detectors_of_shvit_fit_their_configs_tensor_by_tensor(name):
    with torch.device('meta'):
        theirs = SHVITS[name]().state_dict()
    assert len(theirs) == {'retinanet_shvit_s4': 666, 'maskrcnn_shvit_s4': 674}[name]
    content = as_ours(dict(state_dict=theirs, meta={}))
    assert (content['meta'][RELEASE]['model'], content['meta'][RELEASE]['ignored']) == (name, [])
    assert shapes(content['state_dict']) == shapes(build_empty(name).state_dict())


def shapes(state: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in state.items()}


@pytest.mark.parametrize('release', cvnets.RELEASES, ids=lambda release: release.config)
def test_a_file_of_cvnets_finds_what_its_own_network_finds(release, folder, log):
    picture = files.save_picture(folder / 'p.png', 160, 128)
    network = files.with_random_weights(release.network())
    ours, theirs = (detected if release.head == 'ssdlite' else segmented)(
        release, network, picture, folder
    )
    if release.head == 'ssdlite':
        assert_same_detections(ours, theirs)
        assert '12 of them reordered, 0 ignored, 0 missing' in log.text
    else:
        assert files.difference(ours.seg_logits.data, theirs) <= TOLERANCE
        labels = theirs.argmax(dim=0)
        assert len(labels.unique()) >= 2
        assert int((ours.pred_sem_seg.data[0] != labels).sum()) <= 2  # pixels of equal logits
        assert '0 ignored, 0 missing' in log.text


def detected(release, network: nn.Module, picture: Path, folder: Path):
    pixels = cvnets.read(picture, (cvnets.SSD_SIDE,) * 2)
    layers = [head.loc_cls_layer for head in network.ssd_heads]
    last = [getattr(layer, 'pw_conv', layer).block.conv for layer in layers]
    files.spread(network, pixels, dict.fromkeys(last, 1.5))
    found = predicted(release.config, files.save_cvnets(network, folder / 'ssd.pt'), picture)
    return found.pred_instances, network.detect(pixels, 128, 160)


def segmented(release, network: nn.Module, picture: Path, folder: Path):
    # the short side of the image is that of the recipe: neither resizes
    path = files.save_cvnets(network, folder / 'seg.pt')
    found = predicted(release.config, path, picture, {RESIZE: (8192, 128)})
    return found, network.segment(cvnets.read(picture, (160, 128)), 128, 160)


def predicted(name: str, checkpoint: Path, picture: Path, options: dict | None = None):
    """The predictions of a config's model with the weights of a file."""
    predictor = load_predictor(
        str(ROOT / 'configs' / f'{name}.py'), str(checkpoint), device='cpu', cfg_options=options
    )
    image = predictor.read(picture)
    return predictor.predict([predictor.prepare(image, picture, 0)])[0]


def assert_same_detections(ours, theirs: Sequence[Tensor]) -> None:
    """All detections match; those with the lowest score may differ."""
    boxes, scores, labels = theirs[:3]
    assert len(scores) == len(ours) > 5
    assert len(labels.unique()) > 2
    torch.testing.assert_close(ours.scores, scores, rtol=TOLERANCE, atol=TOLERANCE)
    certain = scores > scores[-1] + TOLERANCE
    assert certain.sum() > 5
    apart = (ours.bboxes.float()[None] - boxes[:, None]).abs().amax(dim=2) / boxes.max()
    apart += (ours.scores[None] - scores[:, None]).abs() + (ours.labels[None] != labels[:, None])
    assert float(apart.amin(dim=1)[certain].max()) <= TOLERANCE


@pytest.mark.parametrize('name', SHVITS)
def test_a_detector_of_shvit_finds_what_its_own_network_finds(name, folder, log):
    from mmdet.datasets import CocoDataset

    picture = files.save_picture(folder / 'p.png', 200, 150)
    image = cv2.resize(cv2.imread(str(picture)), (256, 192), interpolation=cv2.INTER_LINEAR)
    pixels = torch.from_numpy(image[..., ::-1].copy()).permute(2, 0, 1)[None].float()  # RGB
    network = files.with_random_weights(SHVITS[name]())
    files.spread(network, pixels, shvit.deviations(network))
    path = folder / f'{name}.pth'
    files.save_mmdet2(network, path, CocoDataset.METAINFO['classes'])
    ours = predicted(name, path, picture, {RESIZE: (256, 192)}).pred_instances
    boxes, scores, labels, *masks = network.detect(pixels, torch.tensor([256 / 200, 192 / 150]))
    assert_same_detections(ours, (boxes, scores, labels))
    assert f'{len(network.state_dict())} tensors loaded, 0 ignored, 0 missing' in log.text
    for index in range(len(masks[0]) if masks else 0):
        apart = (ours.bboxes.float() - boxes[index]).abs().amax(dim=1)
        same = int((apart + (ours.labels != labels[index]) * 1e3).argmin())
        pasted = shvit.paste(masks[0][index], boxes[index], 150, 200)
        assert 0 < pasted.sum() < pasted.numel()
        assert int((pasted != ours.masks[same]).sum()) <= 2  # values of one half, rounded


@pytest.mark.parametrize(
    'name', ['pspnet_mobilevitv2_050_voc12', 'deeplabv3_mobilevitv2_050_ade20k']
)
def test_logits_are_resized_once_to_the_size_of_the_image(name, folder):
    release = next(release for release in cvnets.RELEASES if release.config == name)
    picture = files.save_picture(folder / 'p.png', 80, 64)
    network = files.with_random_weights(release.network())
    ours = predicted(
        name, files.save_cvnets(network, folder / 'seg.pt'), picture, {RESIZE: (8192, 128)}
    )
    theirs = network.segment(cvnets.read(picture, (160, 128)), 64, 80)
    assert files.difference(ours.seg_logits.data, theirs) <= TOLERANCE
    assert int((ours.pred_sem_seg.data[0] != theirs.argmax(dim=0)).sum()) <= 2


@pytest.mark.parametrize(('width', 'height'), [(500, 333), (375, 500), (640, 480)])
@pytest.mark.parametrize(
    'name', ['pspnet_mobilevitv2_050_voc12', 'deeplabv3_mobilevitv2_050_voc12']
)
def test_images_of_any_size_are_segmented_as_by_cvnets(name, width, height, folder):
    release = next(release for release in cvnets.RELEASES if release.config == name)
    picture = files.save_picture(folder / 'p.png', width, height)
    network = files.with_random_weights(release.network())
    ours = predicted(
        name, files.save_cvnets(network, folder / 'seg.pt'), picture, {RESIZE: (8192, 256)}
    )
    scale = 256 / min(width, height)  # exact short side, truncated long side
    size = (256, int(height * scale)) if width < height else (int(width * scale), 256)
    theirs = network.segment(cvnets.read(picture, size), height, width)
    assert files.difference(ours.seg_logits.data, theirs) <= TOLERANCE
    assert int((ours.pred_sem_seg.data[0] != theirs.argmax(dim=0)).sum()) <= 4
