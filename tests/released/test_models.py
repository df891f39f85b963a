"""Every released model loads into our config and gives the same predictions."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from mmdet.datasets import CocoDataset
from mmdet.structures import DetDataSample
from mmseg.datasets import ADE20KDataset
from mmseg.structures import SegDataSample
from torch import Tensor, nn

from mmeffvit.inference.model import run_model
from mmeffvit.inference.predictor import Predictor
from mmeffvit.models.checkpoints import fit
from mmeffvit.zoo.identify import describe
from tests.configs.models import build_empty
from tests.conftest import ROOT
from tests.models.parity import TOLERANCE
from tests.released import cvnets, efficientformerv2, files, shvit
from tests.variants import sampled

CVNETS, SHVITS, EFFICIENT = cvnets.RELEASES, shvit.RELEASES, efficientformerv2.RELEASES
RESIZE = 'test_dataloader.dataset.pipeline.1.scale'

# one of every head and dataset
FEW = [name for name in CVNETS if '_050' in name]
SMALLER = [name for name in EFFICIENT if 's2' in name]

NETWORKS = {name: release.network for name, release in CVNETS.items()} | SHVITS | EFFICIENT
# tensors of a file, as listed with the facts of the releases
TENSORS = {name: release.tensors for name, release in CVNETS.items()} | dict(
    retinanet_shvit_s4=666, maskrcnn_shvit_s4=674, maskrcnn_efficientformerv2_s2=1114,
    semfpn_efficientformerv2_s2_ade20k=1132,
)  # fmt: skip
# tables of the classifier, and indices
IGNORED = {name: 27 if 's2' in name else 39 for name in EFFICIENT}


@pytest.mark.parametrize('name', sampled(list(NETWORKS), [*FEW, *SHVITS, *SMALLER]))
def test_every_file_fits_its_config_tensor_by_tensor(name):
    with torch.device('meta'):
        theirs = NETWORKS[name]().state_dict()
    assert len(theirs) == TENSORS.get(name, len(theirs))
    if name in CVNETS:  # as listed, to one digit
        size = sum(value.numel() * value.element_size() for value in theirs.values())
        assert size / 1e6 == pytest.approx(CVNETS[name].megabytes, abs=0.06)
    checkpoint, ours = files.checkpoint_of(theirs), build_empty(name)
    assert describe(checkpoint.weights) == name
    assert checkpoint.release.layout == ('cvnets' if name in CVNETS else 'mmdet 2')
    assert len(checkpoint.release.ignored) == IGNORED.get(name, 0)
    assert shapes(fit(ours, checkpoint)[0]) == shapes(ours.state_dict())


def shapes(state: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in state.items()}


DETECTORS = [name for name in CVNETS if name.startswith('ssdlite')]
SEGMENTORS = [name for name in CVNETS if name not in DETECTORS]


@pytest.mark.parametrize('name', sampled(DETECTORS, FEW))
def test_a_detector_of_cvnets_finds_what_its_own_network_finds(name, folder, log):
    picture = files.save_picture(folder / 'p.png', 160, 128)
    network = files.with_random_weights(NETWORKS[name]())
    pixels = cvnets.read(picture, (320, 320))
    files.spread(partial(network, pixels), [cvnets.deviations(network)])
    ours = predicted(name, files.save_cvnets(network, folder / 'ssd.pt'), picture)
    theirs = network.detect(pixels, 128, 160)
    assert_same_detections(ours.pred_instances, theirs)
    assert '12 of them reordered, 0 ignored, 0 missing' in log.text


# its own size, a smaller one and those of camera images, for one dataset of each head
SIZES = [((160, 128), 128), ((80, 64), 128), ((500, 333), 256), ((375, 500), 256)]
SIZED = ('pspnet_mobilevitv2_050_ade20k', 'deeplabv3_mobilevitv2_050_voc12')


@pytest.mark.parametrize(
    ('name', 'size', 'side'),
    [
        pytest.param(name, *size, marks=() if name in FEW else pytest.mark.variant)
        for name in SEGMENTORS
        for size in SIZES[: None if name in SIZED else 1]
    ],
)
def test_a_segmentor_of_cvnets_finds_what_its_own_network_finds(name, size, side, folder, log):
    """Logits are resized once, from those of the network to the size of the image."""
    picture = files.save_picture(folder / 'p.png', *size)
    network = files.with_random_weights(NETWORKS[name]())
    path = files.save_cvnets(network, folder / 'seg.pt')
    ours = predicted(name, path, picture, {RESIZE: (8192, side)})
    scale = side / min(size)  # exact short side, truncated long side
    scaled = tuple(side if edge == min(size) else int(edge * scale) for edge in size)
    theirs = network.segment(cvnets.read(picture, scaled), *size[::-1])
    assert_same_labels(ours, theirs)
    assert '0 ignored, 0 missing' in log.text


def assert_same_labels(ours, theirs: Tensor) -> None:
    """Equal logits and labels, but for a few pixels of nearly equal logits."""
    assert files.difference(ours.seg_logits.data, theirs) <= TOLERANCE
    labels = theirs.argmax(dim=0)
    assert len(labels.unique()) > 1
    assert int((ours.pred_sem_seg.data[0] != labels).sum()) <= 4


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
    data = files.data_of(picture, scale, DetDataSample)
    if hasattr(network, 'rpn_head'):  # fewer proposals: a thousand take seconds
        options['model.test_cfg.rpn.max_per_img'] = network.rpn_head.test_cfg.max_per_img = 100
    files.spread(partial(network.test_step, data), shvit.deviations(network))
    path = folder / f'{name}.pth'
    files.save_mmdet2(network, path, CocoDataset.METAINFO['classes'])
    ours = predicted(name, path, picture, {RESIZE: scale, **options}).pred_instances
    with torch.no_grad():
        theirs = network.test_step(data)[0].pred_instances
    assert_same_detections(ours, (theirs.bboxes, theirs.scores, theirs.labels))
    mixed = 0  # masks with pixels of both kinds
    for index, mask in enumerate(theirs.get('masks', ())):
        apart = (ours.bboxes - theirs.bboxes[index]).abs().amax(dim=1)
        same = int((apart + (ours.labels != theirs.labels[index]) * 1e3).argmin())
        mixed += bool(mask.any() and not mask.all())
        assert int((mask != ours.masks[same]).sum()) <= 2  # values of one half, rounded
    assert 'masks' not in theirs or mixed > len(theirs) / 2


@pytest.mark.slow
@pytest.mark.parametrize('name', sampled(EFFICIENT, SMALLER))
def test_a_file_of_efficientformerv2_finds_what_its_own_network_finds(name, folder, log):
    """At the size of the tables: others are resized as test_position_bias.py says."""
    size, native = (128, 128), {'model.backbone.resolution': 128}
    kind = DetDataSample if name.startswith('maskrcnn') else SegDataSample
    data = files.data_of(files.save_picture(folder / 'p.png', *size), size, kind)
    network = efficientformerv2.with_random_weights(EFFICIENT[name](resolution=128), data)
    if kind is DetDataSample:
        find_the_same(name, network, folder, size, size, **native)
    else:
        with torch.no_grad():
            theirs = network.test_step(data)[0].seg_logits.data
        path = files.save_mmdet2(network, folder / 'seg.pth', ADE20KDataset.METAINFO['classes'])
        options = {RESIZE: (8192, size[1]), **native}
        assert_same_labels(predicted(name, path, folder / 'p.png', options), theirs)
    ignored = IGNORED[name]
    loaded = len(network.state_dict()) - ignored
    assert f'{loaded:,} tensors loaded, {ignored} ignored, 0 missing' in log.text
