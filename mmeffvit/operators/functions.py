"""The functions of ``mmcv._ext``, by name."""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from .box_nms import nms, nms_match, softnms
from .deform_attention import ms_deform_attn_backward, ms_deform_attn_forward
from .deform_conv import (
    deform_conv_backward_input,
    deform_conv_backward_parameters,
    deform_conv_forward,
    modulated_deform_conv_backward,
    modulated_deform_conv_forward,
)
from .focal_loss import (
    sigmoid_focal_loss_backward,
    sigmoid_focal_loss_forward,
    softmax_focal_loss_backward,
    softmax_focal_loss_forward,
)
from .roi_align import roi_align_backward, roi_align_forward

OPERATORS = (
    deform_conv_backward_input,
    deform_conv_backward_parameters,
    deform_conv_forward,
    modulated_deform_conv_backward,
    modulated_deform_conv_forward,
    ms_deform_attn_backward,
    ms_deform_attn_forward,
    nms,
    nms_match,
    roi_align_backward,
    roi_align_forward,
    sigmoid_focal_loss_backward,
    sigmoid_focal_loss_forward,
    softmax_focal_loss_backward,
    softmax_focal_loss_forward,
    softnms,
)
FUNCTIONS: dict[str, Callable[..., Any]] = {function.__name__: function for function in OPERATORS}
# what mmcv's report of the environment asks for
FUNCTIONS |= dict.fromkeys(('get_compiler_version', 'get_compiling_cuda_version'), lambda: 'n/a')


def __getattr__(name: str) -> Callable[..., Any]:
    """Return the function of that name; mmcv asks for all names when it is imported."""
    if name.startswith('__'):
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return FUNCTIONS.get(name, partial(reject, name))


def reject(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise for an operator that is not implemented here."""
    raise NotImplementedError(
        f'mmcv operator {name!r} is not among those that mmeffvit provides: install a compiled mmcv'
    )
