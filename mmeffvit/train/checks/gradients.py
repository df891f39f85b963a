"""Parameters that get no gradient in a training step."""

from collections.abc import Iterator

from mmengine.config import Config
from torch import nn

from mmeffvit.utils.text import counted, listed

from .findings import Finding, fault, note, passed, unchecked
from .step import Step


def check_gradients(step: Step, config: Config, distributed: bool) -> Iterator[Finding]:
    """Report frozen parameters as a note, and trainable ones that get no gradient.

    The latter are a fault for multi-process training, which fails with them.
    """
    if step.frozen:
        frozen = complete_modules(step.model, set(step.frozen))
        yield note(
            f'frozen by the config: {listed(frozen)} ({counted(len(step.frozen), "tensor")})'
        )
    if step.error is not None:
        yield unchecked('parameters without a gradient: the training step failed')
        return
    trained = dict(step.model.named_parameters())
    unused = {name for name, p in trained.items() if p.requires_grad and p.grad is None}
    if not unused:
        yield passed('all trainable parameters get a gradient')
        return
    groups = complete_modules(step.model, unused)
    text = f'no gradient reaches {listed(groups)} ({counted(len(unused), "tensor")})'
    wrapper = config.get('model_wrapper_cfg') or {}
    if any(each.get('find_unused_parameters') for each in (config, wrapper)):
        yield note(f'{text}; the config has find_unused_parameters=True')
    else:
        text += f': {suggest_fix(step, groups)}, or set find_unused_parameters=True'
        yield (
            fault(f'{text}: distributed training fails otherwise, a single process does not')
            if distributed
            else note(f'{text}, for distributed training; a single process trains without')
        )


def complete_modules(model: nn.Module, names: set[str]) -> list[str]:
    """The outermost modules with all parameters in ``names``, and remaining single parameters."""
    found = []

    def visit(prefix: str, module: nn.Module) -> None:
        own = {prefix + name for name, _ in module.named_parameters(remove_duplicate=False)}
        if own and own <= names:
            found.append(prefix.rstrip('.') or 'the full model')
        elif own & names:
            direct = module.named_parameters(recurse=False)
            found.extend(prefix + name for name, _ in direct if prefix + name in names)
            for name, child in module.named_children():
                visit(f'{prefix}{name}.', child)

    visit('', model)
    return found


def suggest_fix(step: Step, groups: list[str]) -> str:
    """The fix in the config for the unused part of the model."""
    fixes = []
    if any(group.startswith('backbone.') for group in groups):
        indices = getattr(step.backbone, 'out_indices', ())
        idle = {int(g.split('.')[2]) for g in groups if g.startswith('backbone.output_norms.')}
        used = tuple(i for i in indices if i not in idle)
        fixes.append(
            f'no head uses all maps of the backbone, set model.backbone.out_indices={used} and, to '
            'match, in_channels and start_level of the neck or in_index of the heads'
            if idle
            else 'select the maps that heads use with model.backbone.out_indices'
        )
    if any(group.split('.')[0] == 'neck' for group in groups):
        fixes.append(
            'no head uses all levels of the neck, lower its num_outs or let a head take them '
            '(in_index, strides)'
        )
    return ', '.join(fixes) or 'remove it from the config'
