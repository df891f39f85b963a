"""Find faults of a config before training: build its model and train it for one step."""

from collections.abc import Callable, Iterable
from copy import deepcopy

from mmengine.config import Config
from mmengine.dist import broadcast_object_list, get_rank, get_world_size

from mmeffvit.config.build import isolated
from mmeffvit.errors import UserError
from mmeffvit.utils.text import counted, reason

from .classes import compare_classes
from .findings import Finding, Kind, unchecked
from .gradients import check_gradients
from .maps import check_run, check_strides
from .settings import check_inputs, check_names, check_pretrained
from .step import Step, run_step


def check_config(config: Config, *, distributed: bool = True) -> list[Finding]:
    """Train the model of a config for one step on noise, and check that its parts match.

    It checks declared strides of heads against their input maps, channels, numbers of classes, the
    normalization of images, and parameters without a gradient. The model is built on the CPU with
    random weights; no data or weights are read, and the config and all random states remain
    unchanged.

    Args:
        config: A config of mmdet, mmseg or mmpretrain; the package must be imported.
        distributed: Whether problems of multi-process training count as faults.

    Returns:
        The findings: faults, notes, passed checks and what could not be checked.
    """
    fixed: list[Finding] = []
    with isolated(config.default_scope):
        findings = findings_of(run_step(config), config, distributed)
        # again with fixed channels where the step stopped at wrong ones
        while wrong := next(
            (f for f in findings if f.fix and f.fix not in (g.fix for g in fixed)), None
        ):
            fixed.append(wrong)
            config = deepcopy(config)
            try:
                config.merge_from_dict(dict([wrong.fix]))
            except (KeyError, TypeError, IndexError):  # the module has no settings of its own
                break
            step = run_step(config)
            if step.model is None:  # its class does not take the key
                break
            findings = findings_of(step, config, distributed)
    texts = {f.text for f in findings}
    return [*(f for f in fixed if f.text not in texts), *findings]


def findings_of(step: Step, config: Config, distributed: bool) -> list[Finding]:
    """Run all checks; each of them also works for a step that failed midway."""
    if step.model is None:
        return list(check_run(step, explained=False))
    strides = run_check('strides', check_strides, step, config)
    explained = any(finding.kind is Kind.FAULT for finding in strides)
    return [
        *strides,
        *check_run(step, explained=explained),
        *run_check('classes', compare_classes, step, config),
        *run_check('normalization of images', check_inputs, step, config),
        *run_check('parameters without a gradient', check_gradients, step, config, distributed),
        *run_check('pretrained weights', check_pretrained, step, config),
        *run_check('names', check_names, config),
    ]


def run_check(topic: str, check: Callable[..., Iterable[Finding]], *args: object) -> list[Finding]:
    """The findings of a check, or that it failed: it may not support every model."""
    try:
        return list(check(*args))
    except Exception as error:  # a failing check must not prevent training
        return [unchecked(f'{topic}: {reason(error)}')]


def faults_in(findings: list[Finding]) -> list[str]:
    return [finding.text for finding in findings if finding.kind is Kind.FAULT]


def count_faults(faults: list[str]) -> str:
    return counted(len(faults), 'error') if faults else 'no errors'


def stop_at_faults(config: Config) -> None:
    """Raise an error for a config with faults; of several processes, the first one checks.

    Raises:
        UserError: With all faults; in other processes, with a reference to the first one.
    """
    distributed = get_world_size() > 1
    shared = [faults_in(check_config(config, distributed=distributed)) if get_rank() == 0 else []]
    broadcast_object_list(shared)  # does nothing in a single process
    (faults,) = shared
    if not faults:
        return
    if get_rank() != 0:
        raise UserError('stopped: see the first process for the errors of the config')
    heading = f'{config.filename} has {count_faults(faults)} (--no-check trains anyway): '
    if len(faults) == 1:
        raise UserError(f'{heading}{faults[0]}')
    raise UserError(heading, *(f'  {i}. {text}' for i, text in enumerate(faults, 1)))
