"""Attention of models on image files: sheets, arrays and error messages."""

import cv2
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from mmeffvit.analysis.attention import Canvas, record_attention
from mmeffvit.analysis.attention.run import visualize_attention
from mmeffvit.analysis.attention.sheet import InputImage, draw_map, limits_of
from mmeffvit.analysis.attention.subject import open_subject
from mmeffvit.errors import UserError
from mmeffvit.models import SHViT
from mmeffvit.models.checkpoints import CheckpointError
from tests.conftest import ROOT, output_of

RTMDET = str(ROOT / 'configs' / 'rtmdet_swiftformer_xs.py')
SEGFORMER = str(ROOT / 'configs' / 'segformer_mobilevitv2_050_ade20k.py')


@pytest.fixture(scope='module')
def image(tmp_path_factory):
    """A bright square on noise, with an odd width."""
    pixels = np.random.default_rng(0).integers(0, 100, (60, 91, 3), np.uint8)
    pixels[20:40, 50:70] = 255
    path = tmp_path_factory.mktemp('images') / 'odd.png'
    cv2.imwrite(str(path), pixels)
    return path


def arrays_of(files):
    (path,) = [path for path in files if path.suffix == '.npz']
    return dict(np.load(path))


def test_a_sheet_and_the_arrays_of_a_backbone_are_written(image, tmp_path, capsys):
    files = visualize_attention('SHViT:s1', [str(image)], tmp_path, query=(60, 30))
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ['odd.single_head.png', 'odd.npz']
    arrays = arrays_of(files)
    assert arrays['input_size'].tolist() == [60, 91]
    assert arrays['query'].tolist() == [60, 30]
    first = arrays['stages.1.blocks.0.attention/attention']
    assert (first.shape, first.dtype) == ((2, 3), np.float32)
    assert first.sum() == pytest.approx(1)
    assert cv2.imread(str(files[0])).shape[1] == 5 * 240  # five panels
    said = capsys.readouterr().out
    assert 'weights are random' in said
    assert str(files[0]) in said


@pytest.mark.parametrize(
    ('options', 'groups'),
    [
        ('', ['odd.stages.2.heads.png', 'odd.stages.3.heads.png']),
        (
            ':attention=mobile',
            ['odd.stages.2.mobile.png', 'odd.stages.3.heads.png', 'odd.stages.3.mobile.png'],
        ),
    ],
)
def test_layers_with_several_maps_have_a_sheet_per_stage(image, tmp_path, options, groups):
    files = visualize_attention(f'EfficientFormerV2:s0{options}', [str(image)], tmp_path)
    assert sorted(path.name for path in files[:-1]) == groups
    arrays = arrays_of(files)
    if options:
        weights = arrays['stages.2.blocks.4.attention.mixer/competition']
        assert weights.shape == (64, 2, 3)
    else:
        heads = arrays['stages.3.downsample.attention.mixer/attention']
        assert heads.shape == (8, 4, 6)
        np.testing.assert_allclose(heads.sum(axis=(1, 2)), 1, rtol=1e-5)


def test_a_detector_is_drawn_without_the_padding_of_its_pipeline(image, tmp_path):
    files = visualize_attention(RTMDET, [str(image)], tmp_path, size=(96, 128))
    arrays = arrays_of(files)
    # 60 x 91 pixels fill the width of 128; the height is padded by the pipeline
    assert arrays['input_size'].tolist() == [96, 128]
    assert arrays['content_size'].tolist() == [84, 128]
    assert arrays['backbone.stages.3.blocks.3.attention/weights'].shape == (3, 4)


def test_a_segmentor_gets_its_weights_and_only_the_layers_asked_for(image, tmp_path, capsys):
    torch.manual_seed(3)
    with open_subject(SEGFORMER, None, None) as subject:
        model = subject.model
    checkpoint = tmp_path / 'iter_1.pth'
    torch.save({'state_dict': model.state_dict(), 'meta': {}}, checkpoint)
    files = visualize_attention(
        SEGFORMER, [str(image)], tmp_path, checkpoint=str(checkpoint), size=(64, 512),
        layers=['stages.3'], query=(3, 4),
    )  # fmt: skip
    said = capsys.readouterr().out
    assert 'random' not in said
    assert '--query has no effect' in said
    arrays = arrays_of(files)
    # scaled to 64 x 97, then stretched to 64 x 128 by the pipeline
    assert arrays['input_size'].tolist() == [64, 128]
    assert arrays['content_size'].tolist() == [64, 128]
    names = [f'backbone.stages.3.blocks.0.encoders.{i}.attention/folded' for i in range(4)]
    assert [name for name in arrays if name.endswith('/folded')] == names
    pixels = cv2.resize(cv2.imread(str(image))[..., ::-1], (97, 64))
    inputs = torch.from_numpy(cv2.resize(pixels, (128, 64))).permute(2, 0, 1)[None] / 255
    with record_attention(model, Canvas(64, 128)) as readings, torch.no_grad():
        model.extract_feat(inputs)
    layer = names[0].removesuffix('/folded')
    np.testing.assert_allclose(arrays[names[0]], readings[layer].arrays['folded'], rtol=1e-4)


def test_released_weights_go_into_the_backbone_alone_or_inside_a_model(image, tmp_path):
    torch.manual_seed(4)
    backbone = SHViT('s1').eval()
    state = {key: value + 1 for key, value in backbone.state_dict().items()}
    checkpoint = tmp_path / 'shvit_s1.pth'
    torch.save({'model': {f'module.{key}': value for key, value in state.items()}}, checkpoint)
    config = str(ROOT / 'configs' / 'segformer_shvit_s1_ade20k.py')
    with open_subject(config, str(checkpoint), None) as inside:
        pass
    with open_subject('SHViT:s1', str(checkpoint), None) as alone:
        pass
    assert inside.remark == alone.remark == 'weights: shvit_s1.pth'
    for loaded in (inside.model.backbone, alone.model):
        for key, value in loaded.state_dict().items():
            assert torch.equal(value, state[key]), key
    with pytest.raises(CheckpointError, match=r'shvit_s1\.pth'):
        visualize_attention('SHViT:s2', [str(image)], tmp_path, checkpoint=str(checkpoint))


@pytest.mark.parametrize(
    ('target', 'options', 'message'),
    [
        ('SHViT:s1', dict(query=(91, 0)), r'--query 91 0 .*odd.png'),
        ('SHViT:s1', dict(size=(31, 64)), '--shape is 31 64.* 32'),
        ('SHViT:s1', dict(images=['gone.png']), 'gone.png'),
        ('SHViT:s1', dict(images=[__file__]), 'test_run.py'),
        ('SHViT:s1', dict(images=['a/odd.png', 'b/odd.png']), "'odd'"),
        ('mmdet.ResNet:depth=18', {}, 'mmdet.ResNet'),
        (str(ROOT / 'configs/_base_/datasets/voc12_coco.py'), {}, 'default_scope'),
    ],
)
def test_mistakes_are_named(image, tmp_path, target, options, message):
    options = dict(options)
    images = options.pop('images', [str(image)])
    with pytest.raises(UserError, match=message):
        visualize_attention(target, images, tmp_path / 'out', **options)
    assert not (tmp_path / 'out').exists()


def test_an_image_that_is_too_small_is_named(tmp_path):
    small = tmp_path / 'small.png'
    cv2.imwrite(str(small), np.zeros((20, 40, 3), np.uint8))
    with pytest.raises(UserError, match=r'small.png .*40 x 20.*--shape'):
        visualize_attention('SwiftFormer:xs', [str(small)], tmp_path)
    assert visualize_attention('SwiftFormer:xs', [str(small)], tmp_path, size=(32, 64))


def test_a_map_covers_the_image_without_padding_and_the_query_point_is_ringed():
    values = np.arange(6.0).reshape(2, 3)  # of 32 pixels on a canvas of 64 x 96
    image = InputImage(np.zeros((24, 32, 3), np.uint8), Canvas(64, 96, (40, 16)), (48, 64))
    axes = Figure().subplots()
    draw_map(axes, image, values, 'layer', (0, 5))
    picture, shown = axes.images
    assert (picture.get_extent(), shown.get_extent()) == ([0, 64, 48, 0], [0, 96, 64, 0])
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 64), (48, 0))
    assert (shown.get_array() == values).all()
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[40, 16]]] * 2


def test_a_constant_map_has_the_middle_color_unless_stretched():
    even = np.array([0.9, 1.1], np.float32)
    assert limits_of(even) == pytest.approx((0, 2))
    assert limits_of(even, stretch=True) == pytest.approx((0.9, 1.1))
    assert limits_of(np.array([0.0, 0.0, 9.0]), np.array([1.0])) == (0, 9)
    assert limits_of(np.array([-1.0, 3.0])) == (-1, 3)
    assert limits_of(np.array([-1.0, -3.0])) == (-4, 0)


def test_the_command_passes_its_arguments(image, tmp_path):
    own, shared = tmp_path / 'own', tmp_path / 'shared'  # ranges of colors
    arguments = (
        'analyze', 'attention', 'SwiftFormer:xs', image, '--shape', 64, 96, '--query', 90, 59,
        '--layers', 'stages.3', 'stages.1', '--out',
    )  # fmt: skip
    output_of(*arguments, shared)
    output_of(*arguments, own, '--stretch')
    assert sorted(path.name for path in own.iterdir()) == ['odd.additive.png', 'odd.npz']
    name = 'odd.additive.png'
    assert (own / name).read_bytes() != (shared / name).read_bytes()
    arrays = dict(np.load(own / 'odd.npz'))
    assert arrays['input_size'].tolist() == [64, 96]
    assert sum(name.endswith('/weights') for name in arrays) == 2
