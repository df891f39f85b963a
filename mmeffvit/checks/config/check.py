"""Find the faults of a config before it costs a night: build its model and train it one step."""

from collections.abc import Callable, Iterable

from mmengine.config import Config
from mmengine.dist import broadcast_object_list, get_rank, get_world_size

from mmeffvit.config.build import isolated
from mmeffvit.errors import UserError
from mmeffvit.utils.text import reason

from .channels import check_run
from .classes import compare_classes
from .findings import Finding, Kind, unchecked
from .gradients import check_gradients
from .inputs import check_inputs
from .names import check_names
from .step import Step, run_step
from .strides import check_strides


def check_config(config: Config, *, distributed: bool = True) -> list[Finding]:
    """Train the model of a config for one step on noise, and compare what meets in it.

    Looked at are: strides that heads declare against the maps that reach them, channels, numbers
    of classes, the normalization of images, and parameters without a gradient. The model is built
    on the CPU from random weights; neither data nor weights are read, and neither the config nor
    any random state changes.

    Args:
        config: A config of mmdet or mmseg whose host is imported.
        distributed: Count what stops the training of several processes as a fault.

    Returns:
        What was found: faults, notes, what is fine and what could not be checked.
    """
    with isolated(config.default_scope):
        step = run_step(config)
        if step.model is None:
            return list(check_run(step, explained=False))
        return list(findings_of(step, config, distributed))


def findings_of(step: Step, config: Config, distributed: bool) -> list[Finding]:
    """All checks, each of which works also on a step that stopped midway."""
    strides = attempted('strides', check_strides, step, config)
    explained = any(finding.kind is Kind.FAULT for finding in strides)
    return [
        *strides,
        *check_run(step, explained=explained),
        *attempted('classes', compare_classes, step, config),
        *attempted('normalization of images', check_inputs, step, config),
        *attempted('parameters without a gradient', check_gradients, step, config, distributed),
        *attempted('names', check_names, config),
    ]


def attempted(topic: str, check: Callable[..., Iterable[Finding]], *args: object) -> list[Finding]:
    """What a check finds, or that it could not look: a model may be unlike any that it knows."""
    try:
        return list(check(*args))
    except Exception as error:  # of whatever kind, it must not stop a training
        return [unchecked(f'{topic}: {reason(error)}')]


def faults_in(findings: list[Finding]) -> list[str]:
    return [finding.text for finding in findings if finding.kind is Kind.FAULT]


def counted(faults: list[str]) -> str:
    return 'no fault' if not faults else f'{len(faults)} fault{"s" if len(faults) > 1 else ""}'


def stop_at_faults(config: Config) -> None:
    """Refuse to train a config with faults; of several processes the first checks, all stop.

    Args:
        config: The config of the run, which is not changed.

    Raises:
        UserError: With all faults; in processes but the first, with a reference to that one.
    """
    distributed = get_world_size() > 1
    shared = [faults_in(check_config(config, distributed=distributed)) if get_rank() == 0 else []]
    broadcast_object_list(shared)  # does nothing in a single process
    (faults,) = shared
    if not faults:
        return
    if get_rank() != 0:
        raise UserError('stopped: the first process says what is wrong with the config')
    texts = faults
    if len(faults) > 1:
        texts = [f'\n  {number}. {text}' for number, text in enumerate(faults, 1)]
    raise UserError(
        f'{config.filename} has {counted(faults)} (--no-check trains all the same): '
        f'{"".join(texts)}'
    )
