"""Exported released models agree with the original models."""

from pathlib import Path

import cv2
import pytest
from mmdet.datasets import CocoDataset

from tests.conftest import run_command_here
from tests.released import cvnets, efficientformerv2, files, shvit
from tests.released.test_models import RESIZE, SHVITS, pixels_of
from tests.variants import sampled

RELEASES = {release.config: release for release in cvnets.RELEASES}
CASES = {  # a head of each layout, with the image size of the export
    'ssdlite_mobilevitv2_050': (320, 320),
    'deeplabv3_mobilevitv2_050_voc12': (128, 160),
    'retinanet_shvit_s4': (192, 256),
    'maskrcnn_efficientformerv2_s2': (128, 160),
}


@pytest.mark.slow
@pytest.mark.parametrize(('name', 'shape'), sampled([*CASES.items()], [*CASES.items()][1:2]))
def test_an_exported_released_model_agrees(name, shape, folder):
    height, width = shape
    picture = files.save_picture(folder / 'p.png', width, height)
    options = ['--shape', height, width, '--image', picture]
    sizes, scale = [], f'({width},{height})'
    if name in RELEASES:
        network = files.with_random_weights(RELEASES[name].network())
        released = files.save_cvnets(network, folder / 'released.pt')
        scale = scale if name.startswith('ssdlite') else f'(8192,{height})'
    else:
        released = save_detector(name, picture, folder)
        sizes = ['model.backbone.resize_matrix=True'] if 'efficientformerv2' in name else []
    options += ['--cfg-options', *sizes, f'{RESIZE}={scale}']
    done = run_command_here('export', name, released, folder / 'out.onnx', *options)
    assert done.returncode == 0, done.stdout
    assert (folder / 'out.onnx').is_file()
    compared = 'fraction of differing pixels' if 'voc12' in name else 'box error in pixels'
    assert compared in done.stdout  # something was found


def save_detector(name: str, picture: Path, folder: Path) -> Path:
    """A released file with random weights that find objects in a picture."""
    image = cv2.imread(str(picture))
    pixels = pixels_of(picture, image.shape[1::-1])
    if name in SHVITS:
        network = files.with_random_weights(SHVITS[name]())
    else:
        made = efficientformerv2.RELEASES[name]()
        network = efficientformerv2.with_random_weights(made, pixels)
    files.spread(network, pixels, shvit.deviations(network))
    path = folder / 'released.pth'
    return files.save_mmdet2(network, path, CocoDataset.METAINFO['classes'])
