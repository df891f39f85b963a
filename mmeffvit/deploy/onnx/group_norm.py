"""Group norms in ONNX, without a scale and an offset that do nothing."""

from typing import Any


def onnx_group_norm(
    x: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    """``aten::group_norm`` in standard ONNX operators, for onnxscript.

    The exporter's own translation multiplies by ones and adds zeros where
    :func:`mmeffvit.deploy.fuse` has folded weight and bias into the next convolution.
    """
    from onnxscript import opset18 as op

    grouped = op.Reshape(x, op.Constant(value_ints=[0, num_groups, -1]))
    ones, zeros = ([value] * num_groups for value in (1.0, 0.0))
    normalized = op.InstanceNormalization(
        grouped, op.Constant(value_floats=ones), op.Constant(value_floats=zeros), epsilon=eps
    )
    y = op.Reshape(normalized, op.Shape(x))
    axes = op.Constant(value_ints=list(range(1, len(x.shape) - 1)))
    if weight is not None:
        y = op.Mul(y, op.Unsqueeze(weight, axes))
    if bias is not None:
        y = op.Add(y, op.Unsqueeze(bias, axes))
    return y
