"""One file of every kind where a download would put it, and an image: the first thing to do."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmdet.datasets import CocoDataset
from mmseg.datasets import ADE20KDataset

import mmeffvit
from mmeffvit.inference.predictor import Result
from mmeffvit.inference.results import LabelMap
from mmeffvit.models.checkpoints.sources import place_of
from mmeffvit.zoo import find_model
from tests.conftest import SHARED
from tests.released import cvnets, efficientformerv2, files, shvit
from tests.released.test_loading import transformers_key
from tests.released.test_models import RESIZE, SHVITS, pixels_of
from tests.variants import sampled

CVNETS = {release.config: release for release in cvnets.RELEASES}
TRANSFORMERS = 'deeplabv3_mobilevitv2_100_voc12'
KINDS = [
    'ssdlite_mobilevitv2_100',
    'pspnet_mobilevitv2_050_ade20k',
    'deeplabv3_mobilevitv2_050_voc12',
    TRANSFORMERS,
    *SHVITS,
    'maskrcnn_efficientformerv2_s2',
    'semfpn_efficientformerv2_s2_ade20k',
]
FEW = [
    'ssdlite_mobilevitv2_100',
    'pspnet_mobilevitv2_050_ade20k',
    TRANSFORMERS,
    'retinanet_shvit_s4',
]
SMALL = (448, 320)  # of detectors that test at 1333 x 800


def image_file(folder: Path) -> Path:
    """One of COCO's where they are, else a generated one."""
    found = sorted((SHARED / 'coco_mini' / 'val2017').glob('*.jpg'))
    return found[0] if found else files.save_picture(folder / 'photo.png', 320, 240)


def save_release(name: str, photo: Path, place: Path) -> None:
    """The file of a release with random weights, which find objects in an image."""
    pixels = pixels_of(photo, SMALL)
    if name in SHVITS:
        network = files.with_random_weights(SHVITS[name]())
    elif name in CVNETS:
        network = files.with_random_weights(CVNETS[name].network())
    else:
        made = efficientformerv2.RELEASES[name]()
        network = efficientformerv2.with_random_weights(made, pixels)
    if name.startswith('ssdlite'):
        files.spread(network, cvnets.read(photo, (320, 320)), cvnets.deviations(network))
    elif hasattr(network, 'rpn_head') or hasattr(network, 'bbox_head'):
        files.spread(network, pixels, shvit.deviations(network))
    if name == TRANSFORMERS:
        state = network.state_dict().items()
        torch.save({transformers_key(k): v for k, v in state if 'aux_head' not in k}, place)
    elif name in CVNETS:
        files.save_cvnets(network, place)
    else:
        of_ade = name.endswith('ade20k')
        classes = (ADE20KDataset if of_ade else CocoDataset).METAINFO['classes']
        files.save_mmdet2(network, place, classes)


def predict(name: str, photo: Path, folder: Path) -> Result:
    """What a release finds in an image, and its picture in ``out`` of the folder.

    A file with an address lies in the cache of downloads; another one is given by its path.
    """
    address = find_model(name).weights
    is_download = address is not None and name != TRANSFORMERS
    place = place_of(address) if is_download else folder / 'released.pth'
    place.parent.mkdir(parents=True, exist_ok=True)
    save_release(name, photo, place)
    is_small = name in SHVITS or name.startswith('maskrcnn')
    options = {RESIZE: SMALL} if is_small else {}
    given = () if is_download else (place,)
    predictor = mmeffvit.Predictor(name, *given, device='cpu', cfg_options=options)
    return predictor(photo, out_dir=folder / 'out')


@pytest.mark.slow
@pytest.mark.parametrize('name', sampled(KINDS, FEW))
def test_the_predictor_draws_what_a_file_of_every_kind_finds(name, folder, monkeypatch):
    monkeypatch.setenv('TORCH_HOME', str(folder / 'cache'))
    photo = image_file(folder)
    found = predict(name, photo, folder)
    image, picture = cv2.imread(str(photo)), cv2.imread(str(folder / 'out' / photo.name))
    height, width = image.shape[:2]
    assert picture.shape == image.shape
    assert np.abs(picture.astype(int) - image).max() > 50  # something was drawn
    if isinstance(found, LabelMap):
        assert found.labels.shape == (height, width)
        assert len(found.names) > 1
        return
    assert len(found) > 5
    assert found.scores[0] > 0.3
    assert (found.boxes[:, 2:] <= [width, height]).all()
    assert (found.masks is not None) == name.startswith('maskrcnn')
