"""Parameters that a training step leaves without a gradient."""

from collections.abc import Iterator

from mmengine.config import Config
from torch import nn

from mmeffvit.utils.text import listed

from .findings import Finding, fault, fine, note, unchecked
from .step import Step


def check_gradients(step: Step, config: Config, distributed: bool) -> Iterator[Finding]:
    """Name what is frozen, which is no fault, and what asks for a gradient and gets none.

    The last is a fault for training in several processes, which it stops.
    """
    if step.frozen:
        frozen = maximal(step.model, set(step.frozen))
        yield note(f'frozen by the config: {listed(frozen)} ({len(step.frozen)} tensors)')
    if step.error is not None:
        yield unchecked('parameters without a gradient: the training step did not end')
        return
    trained = dict(step.model.named_parameters())
    unused = {name for name, p in trained.items() if p.requires_grad and p.grad is None}
    if not unused:
        yield fine('every parameter that is not frozen gets a gradient')
        return
    groups = maximal(step.model, unused)
    text = f'no gradient reaches {listed(groups)} ({len(unused)} tensors)'
    if expects_unused(config):
        yield note(f'{text}; the config has find_unused_parameters=True')
    else:
        text += f': {cure(step, groups)}, or set find_unused_parameters=True'
        several = 'distributed training stops'
        yield (
            fault(f'{text}, without which {several}; one process trains all the same')
            if distributed
            else note(f'{text}; without, one process trains all the same, but {several}')
        )


def expects_unused(config: Config) -> bool:
    wrapper = config.get('model_wrapper_cfg') or {}
    return bool(config.get('find_unused_parameters') or wrapper.get('find_unused_parameters'))


def maximal(model: nn.Module, names: set[str]) -> list[str]:
    """The largest modules all of whose parameters are among ``names``, and single parameters."""
    found = []

    def visit(prefix: str, module: nn.Module) -> None:
        own = {prefix + name for name, _ in module.named_parameters(remove_duplicate=False)}
        if own and own <= names:
            found.append(prefix.rstrip('.') or 'the whole model')
        elif own & names:
            direct = module.named_parameters(recurse=False)
            found.extend(prefix + name for name, _ in direct if prefix + name in names)
            for name, child in module.named_children():
                visit(f'{prefix}{name}.', child)

    visit('', model)
    return found


def cure(step: Step, groups: list[str]) -> str:
    """What to change, by the part of the model that is idle."""
    cures = []
    if any(group.startswith('backbone.') for group in groups):
        indices = getattr(step.backbone, 'out_indices', ())
        idle = {int(g.split('.')[2]) for g in groups if g.startswith('backbone.output_norms.')}
        used = tuple(i for i in indices if i not in idle)
        cures.append(
            f'no head uses all maps of the backbone, set model.backbone.out_indices={used} and, to '
            'match, in_channels and start_level of the neck or in_index of the heads'
            if idle
            else 'choose with model.backbone.out_indices the maps that heads use'
        )
    if any(group.split('.')[0] == 'neck' for group in groups):
        cures.append(
            'no head uses all levels of the neck, lower its num_outs or let a head take them '
            '(in_index, strides)'
        )
    return ', '.join(cures) or 'take it out of the config'
