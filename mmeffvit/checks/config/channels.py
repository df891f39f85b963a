"""Why a training step failed: mismatched channels or levels, or errors of the model."""

from collections.abc import Iterator

from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed, reason

from .findings import Finding, fault, unchecked
from .step import Step
from .strides import used_maps


def check_run(step: Step, *, explained: bool) -> Iterator[Finding]:
    """Report why the step failed, if it did.

    Args:
        step: The step.
        explained: Whether other faults explain the failure; then only channels are checked.
    """
    if step.error is None:
        return
    if step.needs_accelerator:
        yield unchecked(f'a training step: it needs an accelerator ({reason(step.error)})')
        return
    wrong = list(wrong_channels(step)) if step.model is not None else []
    yield from wrong
    if wrong or explained:
        yield unchecked('the rest of the training step, which fails because of these errors')
    elif step.model is None:
        known = isinstance(step.error, UserError)
        yield fault(
            str(step.error) if known else f'the model cannot be built: {reason(step.error)}'
        )
    else:
        where = step.describe(step.failed_in) if step.failed_in else 'the model'
        yield fault(f'{where} fails in a training step on random images: {reason(step.error)}')


def wrong_channels(step: Step) -> Iterator[Finding]:
    """The outermost module around the failure whose input channels differ from its config."""
    parts = (step.failed_in or '').split('.')
    for depth in range(1, len(parts) + 1):
        name = '.'.join(parts[:depth])
        if name not in step.received:
            continue
        module = step.model.get_submodule(name)
        maps = used_maps(module, step.received[name])
        arrived = [shape[1] for shape in maps]
        settings = step.settings_of(name)
        # a RoI extractor declares its output channels
        key = 'out_channels' if hasattr(module, 'featmap_strides') else 'in_channels'
        declared = settings.get(key, getattr(module, key, None))
        if not arrived or not isinstance(declared, int | list | tuple):
            continue
        several = isinstance(declared, list | tuple)
        if list(declared) != arrived if several else set(arrived) != {declared}:
            fix = f'model.{name}.{key}', arrived if several else arrived[0]
            yield fault(
                f'{step.describe(name)} has {key}={list(declared) if several else declared}, but '
                f'maps of {listed(arrived)} channels arrive: set {fix[0]}={fix[1]}',
                fix,
            )
            return
