"""The functions of ``mmcv._ext``, by name."""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from . import box_nms, deform_attention, deform_conv, focal_loss, roi_align

OPERATORS = (
    deform_conv.deform_conv_backward_input,
    deform_conv.deform_conv_backward_parameters,
    deform_conv.deform_conv_forward,
    deform_conv.modulated_deform_conv_backward,
    deform_conv.modulated_deform_conv_forward,
    deform_attention.ms_deform_attn_backward,
    deform_attention.ms_deform_attn_forward,
    box_nms.nms,
    box_nms.nms_match,
    roi_align.roi_align_backward,
    roi_align.roi_align_forward,
    focal_loss.sigmoid_focal_loss_backward,
    focal_loss.sigmoid_focal_loss_forward,
    box_nms.softnms,
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
        f'mmcv operator {name!r} is not implemented by mmeffvit: install a compiled mmcv'
    )
