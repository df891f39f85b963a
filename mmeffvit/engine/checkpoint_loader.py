"""The one way in for checkpoints: whatever function of mmengine opens one, our reader does it.

mmengine reads files with the ``torch.load`` of the installed release, and those of an address by
``torch.hub``, which runs the code that a pickle asks for.
"""

from pathlib import Path
from typing import Any

from mmengine.fileio import get_local_path
from mmengine.runner import checkpoint as mmengine_checkpoint
from mmengine.runner.checkpoint import CheckpointLoader

from mmeffvit.checkpoints.models import read_model
from mmeffvit.errors import CheckpointError

# schemes that stand for addresses, with mmengine's functions that list these
NAMED = {
    'torchvision://': mmengine_checkpoint.get_torchvision_models,
    'modelzoo://': mmengine_checkpoint.get_torchvision_models,
    'open-mmlab://': mmengine_checkpoint.get_external_models,
    'openmmlab://': mmengine_checkpoint.get_external_models,
    'mmcls://': mmengine_checkpoint.get_mmcls_models,
}
STORES = ('s3://', 'petrel://')


def guard_checkpoints() -> None:
    """Register :func:`load_guarded` with mmengine for every scheme there is, and for ``hf://``."""
    prefixes = [*CheckpointLoader._schemes, 'hf://']
    CheckpointLoader.register_scheme(prefixes, loader=load_guarded, force=True)


def load_guarded(filename: str, map_location: Any = None, logger: Any = None) -> Any:
    """Read a checkpoint as mmengine asks for it, running no code of the file.

    A released model in its authors' layout comes out under our keys.

    Args:
        filename: A path, an http(s) address, ``hf://OWNER/REPOSITORY``, a name of a model zoo that
            mmengine knows (``torchvision://resnet50``), or a file in an object store
            (``s3://...``).
        map_location: As for ``torch.load``; None leaves tensors on the CPU.
        logger: Not needed.

    Raises:
        mmeffvit.errors.CheckpointError: If it cannot be found or read safely.
    """
    from mmeffvit.zoo.weights import fetch_released  # not at `import mmeffvit`

    name = str(filename)
    place = map_location or 'cpu'
    if any(scheme in name for scheme in STORES):
        with get_local_path(name, backend_args=dict(backend='petrel')) as path:
            return read_model(Path(path), place)
    if name.startswith('pavi://'):
        raise CheckpointError(f'{name}: download it and give the path of the file')
    content = read_model(fetch_released(resolve(name)), place)
    if name.startswith('mmcls://'):
        content = mmengine_checkpoint._process_mmcls_checkpoint(content)
    return content


load_guarded.__name__ = 'load_from_guarded_reader'  # mmengine's log cuts off `load_from_`


def resolve(name: str) -> str:
    """The address behind a name of a model zoo; other names as they are.

    Raises:
        CheckpointError: If the zoo has no such model.
    """
    scheme = next((scheme for scheme in NAMED if name.startswith(scheme)), None)
    if scheme is None:
        return name
    models, model = NAMED[scheme](), name.removeprefix(scheme)
    if 'openmmlab' in scheme.replace('-', ''):
        model = mmengine_checkpoint.get_deprecated_model_names().get(model, model)
    if model not in models:
        raise CheckpointError(f'{name!r}: {scheme} has no {model!r}; it has {", ".join(models)}')
    return models[model]
