"""Files of every format agree with the original model, or are not written."""

import re
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from mmeffvit.deploy.compare import HALF, expect_maps
from mmeffvit.deploy.export import ToolOptions, check_file, find_image
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.table import BY_SUFFIX
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.write import write
from mmeffvit.errors import UserError
from tests.conftest import output_of
from tests.deploy import models, tiny
from tests.variants import sampled

DETECTOR = 'retinanet_swiftformer_l1'
SIZES = ExportOptions(shape=tiny.SIZE, batch=1)


def import_all(ending: str) -> None:
    for package in BY_SUFFIX[ending].packages:
        pytest.importorskip(package)


@pytest.fixture(scope='module')
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return models.save_run(DETECTOR, tmp_path_factory.mktemp('run'))


def test_the_command_writes_one_file_and_reports_its_errors(trained, picture, tmp_path, recwarn):
    out = tmp_path / 'model.onnx'
    shape = ('--shape', 96, 128, '--image', picture)
    printed = output_of('export', *trained, out, '--backbone-only', *shape)
    assert 'stride_8 (batch, 24, 12, 16)' in printed
    assert 'stride_8: relative error' in printed
    assert 'Warning' not in printed
    assert not [each.message for each in recwarn]
    lines = printed.splitlines()
    assert len(lines) < 20
    assert re.match(rf'{out}: \S+ MiB, ONNX, images of 96 x 128; opset 20', lines[0])
    assert [path.name for path in tmp_path.iterdir()] == ['model.onnx']


def changed_copy(backbone: nn.Module) -> nn.Module:
    """Scale one weight, so that the exported weights differ from the original ones."""
    other = tiny.build(tiny.SWIFTFORMER)
    other.load_state_dict(backbone.state_dict())
    with torch.no_grad():
        next(other.stem.parameters()).mul_(1.05)
    return other.eval()


@pytest.mark.parametrize('ending', sampled(BY_SUFFIX, ['.onnx']))
def test_a_backbone_agrees_with_the_original_and_not_with_one_of_other_weights(ending, tmp_path):
    import_all(ending)
    graph, original = tiny.graph(), tiny.build(tiny.SWIFTFORMER).eval()
    out = tmp_path / f'model{ending}'
    with pytest.raises(UserError, match=r'disagrees with the original, so nothing was written'):
        write(graph, out, SIZES, expect=partial(expect_maps, graph, changed_copy(original)))
    assert list(tmp_path.iterdir()) == []
    said = str(write(graph, out, SIZES, expect=partial(expect_maps, graph, original)))
    assert 'stride_4: relative error' in said
    assert out.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ('ending', 'name'),
    sampled(
        [('.param', 'ssdlite_mobilevitv2_050'), ('.param', 'rtmdet_swiftformer_xs'),
         ('.param', 'gflite_swiftformer_xs'), ('.pte', DETECTOR)],
        [('.param', 'ssdlite_mobilevitv2_050')],
    ),
)  # fmt: skip
def test_objects_before_nms_agree_after_it(ending, name, tmp_path):
    import_all(ending)
    said = str(write(make_graph(models.tiny(name)), tmp_path / f'model{ending}', SIZES))
    assert ('candidates before NMS' if ending == '.pte' else 'all priors, before NMS') in said
    assert re.search(r'unmatched objects 0 .*\n.*box error.*\n.*score error', said), said


@pytest.mark.variant
def test_half_precision_has_limits_of_its_own(tmp_path):
    pytest.importorskip('openvino')
    said = str(write(tiny.graph(), tmp_path / 'model.xml', SIZES, half=True))
    assert f'(limit {HALF.maps:.3g})' in said


def test_without_an_image_one_of_the_config_is_used(picture, tmp_path, log):
    config = models.config_of(DETECTOR)
    dataset = config.test_dataloader.dataset
    dataset.update(data_root=str(picture.parent), data_prefix=dict(img=''))
    assert find_image(config) == picture
    dataset.data_root = config.val_dataloader.dataset.data_root = str(tmp_path)
    assert find_image(config).name == 'grace_hopper.jpg'
    assert f'no test images in {tmp_path}' in log.text


@pytest.mark.parametrize(
    ('name', 'options', 'complaint'),
    [
        ('model.onnx', dict(shape=(16, 64)), '32 pixels'),
        ('model.onnx', dict(image=Path('nowhere.jpg')), 'does not exist'),
        ('model.onnx', dict(half=True), 'float32 only'),
        ('model.pte', {}, '--shape HEIGHT WIDTH'),
        ('model.pte', dict(shape=(64, 64), batch=2), 'batch size 1, not 2'),
    ],
)
def test_a_wrong_argument_is_named_before_the_model_is_built(name, options, complaint):
    with pytest.raises(UserError, match=re.escape(complaint)):
        check_file(Path(name), ToolOptions(**options))


@pytest.mark.parametrize('ending', BY_SUFFIX)
def test_a_missing_package_is_reported_with_a_fix(monkeypatch, ending):
    package = BY_SUFFIX[ending].packages[0]
    for name in [n for n in sys.modules if n.partition('.')[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf'Writing {ending} needs {package}.*pip install .*\['):
        check_file(Path(f'model{ending}'), ToolOptions(shape=tiny.SIZE))
