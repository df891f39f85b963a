"""Every released model loads into our config and gives the same predictions."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import pytest
import torch
from mmdet.datasets import CocoDataset
from mmseg.datasets import ADE20KDataset
from torch import Tensor, nn

import mmeffvit
from mmeffvit.inference.model import run_model
from mmeffvit.inference.predictor import Predictor
from mmeffvit.models.checkpoints import fit
from mmeffvit.zoo.identify import describe
from tests.configs.models import build_empty
from tests.conftest import ROOT
from tests.released import cvnets, efficientformerv2, files, shvit
from tests.variants import sampled

TOLERANCE = 1e-4  # relative to the largest value, in float32
SHVITS = {'retinanet_shvit_s4': shvit.RetinaNet, 'maskrcnn_shvit_s4': shvit.MaskRCNN}
RESIZE = 'test_dataloader.dataset.pipeline.1.scale'

# one of every head and dataset
FEW = [release for release in cvnets.RELEASES if '_050' in release.config]
SMALLER = [name for name in efficientformerv2.RELEASES if 's2' in name]


@pytest.mark.parametrize('release', sampled(cvnets.RELEASES, FEW), ids=lambda r: r.config)
def test_every_file_of_cvnets_fits_its_config_tensor_by_tensor(release):
    with torch.device('meta'):
        theirs = release.network().state_dict()
    assert len(theirs) == release.tensors
    size = sum(value.numel() * value.element_size() for value in theirs.values())
    assert size / 1e6 == pytest.approx(release.megabytes, abs=0.06)  # as listed, to one digit
    checkpoint = files.checkpoint_of(theirs)
    assert describe(checkpoint.weights) == release.config
    assert checkpoint.release.layout == 'cvnets'
    ours = build_empty(release.config).state_dict()
    assert shapes(checkpoint.weights) == shapes(ours)


@pytest.mark.parametrize('name', SHVITS)
def test_the_detectors_of_shvit_fit_their_configs_tensor_by_tensor(name):
    with torch.device('meta'):
        theirs = SHVITS[name]().state_dict()
    assert len(theirs) == {'retinanet_shvit_s4': 666, 'maskrcnn_shvit_s4': 674}[name]
    checkpoint = files.checkpoint_of(theirs)
    assert (describe(checkpoint.weights), checkpoint.release.ignored) == (name, ())
    assert shapes(checkpoint.weights) == shapes(build_empty(name).state_dict())


@pytest.mark.parametrize('name', sampled(efficientformerv2.RELEASES, SMALLER))
def test_the_models_of_efficientformerv2_fit_their_configs_tensor_by_tensor(name):
    with torch.device('meta'):
        theirs = efficientformerv2.RELEASES[name]().state_dict()
    if 's2' in name:  # as listed with the facts of the releases
        assert len(theirs) == (1114 if name.startswith('maskrcnn') else 1132)
    checkpoint = files.checkpoint_of(theirs)
    assert describe(checkpoint.weights) == name
    assert len(checkpoint.release.ignored) == (27 if 's2' in name else 39)
    ours = build_empty(name)
    assert shapes(fit(ours, checkpoint)[0]) == shapes(ours.state_dict())


def shapes(state: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in state.items()}


@pytest.mark.parametrize('release', sampled(cvnets.RELEASES, FEW), ids=lambda r: r.config)
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
    files.spread(network, pixels, cvnets.deviations(network))
    found = predicted(release.config, files.save_cvnets(network, folder / 'ssd.pt'), picture)
    return found.pred_instances, network.detect(pixels, 128, 160)


def segmented(release, network: nn.Module, picture: Path, folder: Path):
    # the short side of the image is that of the recipe: neither resizes
    path = files.save_cvnets(network, folder / 'seg.pt')
    found = predicted(release.config, path, picture, {RESIZE: (8192, 128)})
    return found, network.segment(cvnets.read(picture, (160, 128)), 128, 160)


def predicted(name: str, checkpoint: Path, picture: Path, options: dict | None = None):
    """The predictions of a config's model with the weights of a file."""
    config = ROOT / 'configs' / f'{name}.py'
    predictor = Predictor(config, checkpoint, device='cpu', cfg_options=options)
    image = predictor.read(picture)
    return run_model(predictor.model, [predictor.prepare(image, picture)])[0]


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


@pytest.mark.parametrize('name', sampled(SHVITS, ['retinanet_shvit_s4']))
def test_a_detector_of_shvit_finds_what_its_own_network_finds(name, folder, log):
    network = files.with_random_weights(SHVITS[name]())
    find_the_same(name, network, folder, (200, 150), (256, 192))
    assert f'{len(network.state_dict())} tensors loaded, 0 ignored, 0 missing' in log.text


def find_the_same(
    name: str,
    network: nn.Module,
    folder: Path,
    size: tuple[int, int],
    scale: tuple[int, int],
    **options: object,
) -> None:
    """A detector's file gives the boxes and masks of its network.

    Args:
        name: The config.
        network: Of its authors, with random weights.
        folder: For the files.
        size: Width and height of the image.
        scale: That it is resized to.
        options: Of the config.
    """
    picture = files.save_picture(folder / 'p.png', *size)
    pixels = pixels_of(picture, scale)
    files.spread(network, pixels, shvit.deviations(network))
    path = folder / f'{name}.pth'
    files.save_mmdet2(network, path, CocoDataset.METAINFO['classes'])
    ours = predicted(name, path, picture, {RESIZE: scale, **options}).pred_instances
    factor = torch.tensor([scale[0] / size[0], scale[1] / size[1]])
    boxes, scores, labels, *masks = network.detect(pixels, factor)
    assert_same_detections(ours, (boxes, scores, labels))
    mixed = 0  # masks with pixels of both kinds
    for index in range(len(masks[0]) if masks else 0):
        apart = (ours.bboxes.float() - boxes[index]).abs().amax(dim=1)
        same = int((apart + (ours.labels != labels[index]) * 1e3).argmin())
        pasted = shvit.paste(masks[0][index], boxes[index], *size[::-1])
        mixed += bool(0 < pasted.sum() < pasted.numel())
        assert int((pasted != ours.masks[same]).sum()) <= 2  # values of one half, rounded
    assert not masks or mixed > len(masks[0]) / 2


def pixels_of(picture: Path, size: tuple[int, int]) -> Tensor:
    """(1, 3, H, W) in RGB from 0 to 255, resized to a width and a height."""
    image = cv2.resize(cv2.imread(str(picture)), size, interpolation=cv2.INTER_LINEAR)
    return torch.from_numpy(image[..., ::-1].copy()).permute(2, 0, 1)[None].float()


@pytest.mark.slow
@pytest.mark.parametrize('name', sampled(efficientformerv2.RELEASES, SMALLER))
def test_a_file_of_efficientformerv2_finds_what_its_own_network_finds(name, folder, log):
    """At another size than that of the tables, whose biases are resized as by the authors."""
    size, native = (160, 128), {'model.backbone.resize_matrix': True}
    picture = files.save_picture(folder / 'p.png', *size)
    pixels = pixels_of(picture, size)
    network = efficientformerv2.with_random_weights(efficientformerv2.RELEASES[name](), pixels)
    if name.startswith('maskrcnn'):
        find_the_same(name, network, folder, size, size, **native)
    else:
        find_the_same_labels(name, network, folder, size, **native)
    ignored = 27 if 's2' in name else 39
    loaded = len(network.state_dict()) - ignored
    assert f'{loaded:,} tensors loaded, {ignored} ignored, 0 missing' in log.text


@pytest.mark.slow
@pytest.mark.variant
def test_a_segmentor_of_efficientformerv2_needs_no_option_at_the_size_of_its_tables(folder):
    name = 'semfpn_efficientformerv2_s2_ade20k'
    pixels = pixels_of(files.save_picture(folder / 'p.png', 512, 512), (512, 512))
    network = efficientformerv2.with_random_weights(efficientformerv2.RELEASES[name](), pixels)
    find_the_same_labels(name, network, folder, (512, 512))


@pytest.mark.slow
@pytest.mark.variant
def test_a_detector_of_efficientformerv2_needs_no_option_at_the_size_of_its_tables(folder):
    name = 'maskrcnn_efficientformerv2_s2'
    pixels = pixels_of(files.save_picture(folder / 'p.png', 800, 800), (800, 800))
    network = efficientformerv2.with_random_weights(efficientformerv2.RELEASES[name](), pixels)
    path = files.save_mmdet2(network, folder / 'det.pth', CocoDataset.METAINFO['classes'])
    model = mmeffvit.get_model(name, path).eval()
    with torch.no_grad():
        inputs = model.data_preprocessor(dict(inputs=[pixels[0].flip(0)]))['inputs']  # BGR
        maps = model.extract_feat(inputs)
        for ours, theirs in zip(maps, network.features(pixels), strict=True):
            assert files.difference(ours, theirs) <= TOLERANCE


def find_the_same_labels(
    name: str, network: nn.Module, folder: Path, size: tuple[int, int], **options: object
) -> None:
    """The file of a segmentor of mmseg 0 gives the logits and labels of its network."""
    picture = files.save_picture(folder / 'p.png', *size)
    theirs = network.segment(pixels_of(picture, size))
    path = files.save_mmdet2(network, folder / 'seg.pth', ADE20KDataset.METAINFO['classes'])
    ours = predicted(name, path, picture, {RESIZE: (8192, size[1]), **options})
    assert files.difference(ours.seg_logits.data, theirs) <= TOLERANCE
    labels = theirs.argmax(dim=0)
    assert len(labels.unique()) > 2
    assert int((ours.pred_sem_seg.data[0] != labels).sum()) <= 2


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


@pytest.mark.parametrize(('width', 'height'), [(500, 333), (375, 500)])
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
