"""Loaders of checkpoints for mmengine that run no code of a file.

mmengine itself loads files with ``torch.load`` and URLs with ``torch.hub``, which executes the code
in a pickle. The content of a file is unchanged: only ``mmeffvit://``, and checkpoints from our
commands, have the keys of our models. Only our commands reject NaN and infinite weights.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mmengine.fileio import copyfile_to_local
from mmengine.runner import checkpoint as mmengine_checkpoint
from mmengine.runner.checkpoint import CheckpointLoader

from mmeffvit.errors import CheckpointError
from mmeffvit.models.checkpoints import Checkpoint, open_checkpoint
from mmeffvit.models.checkpoints.read import is_command, read_content
from mmeffvit.models.checkpoints.sources import OURS, fetch, register
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import did_you_mean, listed
from mmeffvit.zoo.metafile import find_origin

# schemes of named models, with mmengine's functions that list them
NAMED = {
    'torchvision://': mmengine_checkpoint.get_torchvision_models,
    'modelzoo://': mmengine_checkpoint.get_torchvision_models,
    'open-mmlab://': mmengine_checkpoint.get_external_models,
    'openmmlab://': mmengine_checkpoint.get_external_models,
    'mmcls://': mmengine_checkpoint.get_mmcls_models,
}
STORES = ('s3://', 'petrel://')
# where current and older runners of mmengine store the config
CONFIGS = (('meta', 'config'), ('meta', 'cfg'), ('message_hub', 'runtime_info', 'cfg'))
copies: list[TemporaryDirectory] = []  # of files of a store, removed at the end of the program

_handed_over: ContextVar[Mapping[str, Checkpoint]] = ContextVar('handed_over')


def guard_checkpoints() -> None:
    """Register :func:`load_from_guarded` for mmengine's loaders, ``hf://`` and our scheme.

    Loaders of other packages stay. Downloads of released weights print their license from then on.
    """
    known = CheckpointLoader._schemes
    replaced = (mmengine_checkpoint.__name__, __name__)
    prefixes = [key for key in known if getattr(known[key], '__module__', '') in replaced]
    prefixes += [key for key in ('hf://', OURS) if key not in known]
    CheckpointLoader.register_scheme(prefixes, loader=load_from_guarded, force=True)
    register(find_origin, resolve)


@contextmanager
def handed_over(*checkpoints: Checkpoint) -> Iterator[None]:
    """Within this context, mmengine gets these checkpoints without reading their files again."""
    token = _handed_over.set({each.source: each for each in checkpoints})
    try:
        yield
    finally:
        _handed_over.reset(token)


def load_from_guarded(filename: str, map_location: Any = None, logger: Any = None) -> Any:
    """Load a checkpoint for mmengine without executing code from it.

    Args:
        filename: A path, an http(s) address, ``hf://OWNER/REPOSITORY``, a name of a model zoo that
            mmengine knows (``torchvision://resnet50``), or a file in an object store
            (``s3://...``). ``mmeffvit://`` before any of these returns a released model with our
            keys.
        map_location: See ``torch.load``; None leaves tensors on the CPU.
        logger: Ignored.

    Raises:
        mmeffvit.errors.CheckpointError: If it cannot be found or read safely.
    """
    name = str(filename)
    handed = _handed_over.get({}).get(name)
    if handed is not None or name.startswith(OURS):
        content = (handed or open_checkpoint(name)).content
    else:
        content = read_content(fetch(name), map_location or 'cpu', finite=is_command())
    remove_programs(content, name)
    if name.startswith('mmcls://'):
        content = mmengine_checkpoint._process_mmcls_checkpoint(content)
    return content


def remove_programs(content: Any, name: str) -> None:
    """Remove, in place, configs in a checkpoint that may do more than set values.

    mmengine reads them to resume a run, and its inferencers build what they name.
    """
    from mmeffvit.config.beside import dumped_values  # may be what imports mmengine, and so this
    from mmeffvit.config.found import fault_of

    for *path, key in CONFIGS:
        holder = content
        for part in path:
            holder = holder.get(part) if isinstance(holder, dict) else None
        if not isinstance(holder, dict) or key not in holder:
            continue
        values = dumped_values(holder[key])
        fault = 'it is a program' if values is None else fault_of(values)
        if fault:
            del holder[key]
            logger.warning(
                f'{name}: the config inside, {".".join([*path, key])}, is left out: {fault}, and '
                'could run any code. If you trust it, name a config file'
            )


def resolve(name: str) -> str:
    """The address or path behind a name in a model zoo or a store; other names are unchanged."""
    if name.startswith('pavi://'):
        raise CheckpointError(f'{name}: download it and give the path of the file')
    if any(store in name for store in STORES):
        copies.append(TemporaryDirectory(prefix='mmeffvit_'))
        path = Path(copies[-1].name, Path(name).name)
        try:
            copyfile_to_local(name, path, backend_args=dict(backend='petrel'))
        except ImportError as error:
            raise CheckpointError(f'{name}: {error}') from error
        return str(path)
    scheme = next((scheme for scheme in NAMED if name.startswith(scheme)), None)
    if scheme is None:
        return name
    try:
        models, model = NAMED[scheme](), name.removeprefix(scheme)
    except ImportError as error:
        raise CheckpointError(f'{name!r}: {error}; give the address or a file') from error
    if 'openmmlab' in scheme.replace('-', ''):
        model = mmengine_checkpoint.get_deprecated_model_names().get(model, model)
    if model not in models:
        choices = did_you_mean(model, models) or f'it has {listed(models)}'
        raise CheckpointError(f'{name!r}: {scheme} has no {model!r}; {choices}')
    return models[model]


guard_checkpoints()
