"""ONNX graphs compute in PyTorch what they compute in ONNX Runtime."""

import numpy as np
import pytest
import torch

from mmeffvit.deploy.formats.onnx.quantize import OnnxQuantizer, compared_values
from mmeffvit.deploy.formats.onnx.torch_graph import TorchGraph
from mmeffvit.deploy.runtime.sessions import open_onnx
from mmeffvit.errors import UserError
from tests.deploy.models import file_for_any_size, smooth_image
from tests.variants import sampled

onnx = pytest.importorskip('onnx')
pytest.importorskip('onnxruntime')

FILES = (
    'ssdlite_mobilevitv2_050', 'rtmdet_swiftformer_xs', 'gflite_swiftformer_xs',
    'segformer_swiftformer_xs_ade20k', 'pspnet_mobilevitv2_050_ade20k',
)  # fmt: skip
X = np.linspace(-3, 3, 2 * 4 * 6 * 8, dtype=np.float32).reshape(2, 4, 6, 8)
INT = np.int64
# operator, further inputs, attributes
NODES = [
    ('Abs', [], {}),
    ('AveragePool', [], dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
    ('AveragePool', [], dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)),
    ('Clip', [np.float32(-1), np.float32(2)], {}),
    ('Concat', [X], dict(axis=-3)),
    ('Conv', [X[:, :2, :3, :3].copy()], dict(group=2, pads=[0, 1, 2, 1], strides=[2, 1])),
    ('Conv', [X[:, :, :3, :3].copy(), X[0, 0, 0, :2].copy()], dict(dilations=[2, 2])),
    ('Div', [X[:1] + 4], {}),
    ('Expand', [np.array([3, 1, 1, 1, 8], INT)], {}),
    ('Flatten', [], dict(axis=2)),
    ('Gather', [np.array([[0, -1], [2, 1]], INT)], dict(axis=1)),
    ('Gather', [np.array(1, INT)], dict(axis=-1)),
    ('Gelu', [], {}),
    ('GlobalAveragePool', [], {}),
    ('GridSample', [X[..., :2].reshape(2, 6, 4, 2) / 3], dict(mode='linear')),
    ('HardSigmoid', [], dict(alpha=0.3)),
    ('HardSwish', [], {}),
    ('InstanceNormalization', [X[0, 0, 0, :4].copy(), X[0, 0, 1, :4].copy()], {}),
    ('LayerNormalization', [X[0, 0, 0].copy(), X[0, 0, 1].copy()], dict(epsilon=1e-4)),
    ('LeakyRelu', [], dict(alpha=0.2)),
    ('MatMul', [X.swapaxes(2, 3).copy()], {}),
    ('Max', [X[:, :1] + 1, X[:1]], {}),
    ('MaxPool', [], dict(kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)),
    ('Min', [X[:, :1] + 1], {}),
    ('Pad', [np.array([0, 0, 1, 2, 0, 0, 0, 3], INT), np.float32(7)], {}),
    ('Pad', [np.array([1, 2], INT), np.float32(0), np.array([-1], INT)], {}),
    ('Pow', [np.float32(2)], {}),
    ('ReduceL2', [np.array([-1], INT)], dict(keepdims=0)),
    ('ReduceMax', [], {}),
    ('ReduceMean', [np.array([2, 3], INT)], {}),
    ('ReduceSum', [np.array([1], INT)], dict(keepdims=0)),
    ('Reshape', [np.array([0, -1, 2, 4], INT)], {}),
    ('Resize', [np.float32([]), np.float32([1, 1, 2, 2])], dict(mode='linear')),
    ('Resize', [np.float32([]), np.float32([]), np.array([2, 4, 5, 7], INT)],
     dict(mode='linear', coordinate_transformation_mode='align_corners')),
    ('Resize', [np.float32([]), np.float32([1, 1, 2, 2])],
     dict(mode='nearest', coordinate_transformation_mode='asymmetric', nearest_mode='floor')),
    ('Shape', [], dict(start=1, end=-1)),
    ('Slice', [np.array([1, -5], INT), np.array([99, -1], INT), np.array([2, -1], INT),
               np.array([2, 3], INT)], {}),
    ('Slice', [np.array([1], INT), np.array([2], INT)], {}),
    ('Softmax', [], dict(axis=1)),
    ('Split', [np.array([1, 3], INT)], dict(axis=1)),
    ('Split', [], dict(axis=3, num_outputs=3)),
    ('Squeeze', [], {}),
    ('Tile', [np.array([1, 2, 1, 1], INT)], {}),
    ('Transpose', [], dict(perm=[0, 2, 3, 1])),
    ('Transpose', [], {}),
    ('Unsqueeze', [np.array([0, -1], INT)], {}),
]  # fmt: skip


@pytest.mark.parametrize(('kind', 'inputs', 'options'), NODES, ids=[row[0] for row in NODES])
def test_an_operator_computes_the_same(kind, inputs, options):
    names = [f'input_{index}' for index in range(len(inputs))]
    outputs = [
        f'out_{index}' for index in range(options.get('num_outputs', 2 if kind == 'Split' else 1))
    ]
    node = onnx.helper.make_node(kind, ['x', *names], outputs, **options)
    constants = [
        onnx.numpy_helper.from_array(np.asarray(value), name)
        for name, value in zip(names, inputs, strict=True)
    ]
    kind_of = onnx.TensorProto.INT64 if kind == 'Shape' else onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node],
        'one',
        [onnx.helper.make_tensor_value_info('x', onnx.TensorProto.FLOAT, X.shape)],
        [onnx.helper.make_tensor_value_info(name, kind_of, None) for name in outputs],
        constants,
    )
    opset = onnx.helper.make_opsetid('', 20)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)
    expected = open_onnx(model.SerializeToString()).run(X)
    found = TorchGraph(model, outputs)(torch.from_numpy(X))
    for name in outputs:
        assert found[name].shape == expected[name].shape
        np.testing.assert_allclose(found[name].numpy(), expected[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('config', sampled(FILES, {'segformer_swiftformer_xs_ade20k'}))
def test_a_file_computes_the_same_up_to_its_last_layers(config):
    image = smooth_image((64, 96))
    quantizer = OnnxQuantizer(file_for_any_size(config), [image])
    names = compared_values(quantizer.float_model)
    expected = open_onnx(quantizer.with_outputs(names).SerializeToString()).run(image)
    with torch.no_grad():
        found = TorchGraph(quantizer.float_model, names)(torch.from_numpy(image))
    for name in names:
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(found[name] / scale, expected[name] / scale, atol=2e-5)


def test_an_unknown_operator_is_named():
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node('Det', ['x'], ['y'])],
        'one',
        [onnx.helper.make_tensor_value_info('x', onnx.TensorProto.FLOAT, (3, 3))],
        [onnx.helper.make_tensor_value_info('y', onnx.TensorProto.FLOAT, None)],
    )
    with pytest.raises(UserError, match=r'lacks the operators Det; quantize without --finetune'):
        TorchGraph(onnx.helper.make_model(graph), ['y'])
