"""Every function of mmengine that loads a checkpoint uses our safe reader.

mmengine itself loads files with the installed ``torch.load`` and URLs with ``torch.hub``, which
executes the code in a pickle.
"""

import ast
import logging
from pathlib import Path
from typing import Any

from mmengine.fileio import get_local_path
from mmengine.logging import print_log
from mmengine.runner import checkpoint as mmengine_checkpoint
from mmengine.runner.checkpoint import CheckpointLoader

from mmeffvit.checkpoints.models import read_model
from mmeffvit.checkpoints.sources import Release, fetch, register_releases
from mmeffvit.errors import CheckpointError

# schemes of named models, with mmengine's functions that list them
NAMED = {
    'torchvision://': mmengine_checkpoint.get_torchvision_models,
    'modelzoo://': mmengine_checkpoint.get_torchvision_models,
    'open-mmlab://': mmengine_checkpoint.get_external_models,
    'openmmlab://': mmengine_checkpoint.get_external_models,
    'mmcls://': mmengine_checkpoint.get_mmcls_models,
}
STORES = ('s3://', 'petrel://')
# that a config inside a checkpoint may import
PACKAGES = ('mmeffvit', 'mmengine', 'mmcv', 'mmdet', 'mmseg', 'mmpretrain')
# where current and older runners of mmengine store the config
CONFIGS = (('meta', 'config'), ('meta', 'cfg'), ('message_hub', 'runtime_info', 'cfg'))


def guard_checkpoints() -> None:
    """Register :func:`load_guarded` with mmengine for all its schemes and for ``hf://``.

    Downloads of released weights print their license from then on.
    """
    prefixes = [*CheckpointLoader._schemes, 'hf://']
    CheckpointLoader.register_scheme(prefixes, loader=load_guarded, force=True)
    register_releases(find_release)


def find_release(address: str) -> Release | None:
    """See :func:`mmeffvit.zoo.weights.find_release`, which is not imported before a download."""
    from mmeffvit.zoo import weights

    return weights.find_release(address)


def load_guarded(filename: str, map_location: Any = None, logger: Any = None) -> Any:
    """Load a checkpoint for mmengine without executing code from it.

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
    name = str(filename)
    place = map_location or 'cpu'
    if any(scheme in name for scheme in STORES):
        try:
            with get_local_path(name, backend_args=dict(backend='petrel')) as path:
                content = read_model(Path(path), place)
        except ImportError as error:
            raise CheckpointError(f'{name}: {error}') from error
        remove_programs(content, name)
        return content
    if name.startswith('pavi://'):
        raise CheckpointError(f'{name}: download it and give the path of the file')
    content = read_model(fetch(resolve(name)), place)
    remove_programs(content, name)
    if name.startswith('mmcls://'):
        content = mmengine_checkpoint._process_mmcls_checkpoint(content)
    return content


load_guarded.__name__ = 'load_from_guarded_reader'  # mmengine's log cuts off `load_from_`


def remove_programs(content: Any, name: str) -> None:
    """Remove, in place, configs in a checkpoint that do more than assign values.

    mmengine executes them when a run is resumed, and its inferencers when they get no config.
    """
    for *path, key in CONFIGS:
        holder = content
        for part in path:
            holder = holder.get(part) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and key in holder and not sets_values(holder[key]):
            del holder[key]
            print_log(
                f'{name}: the config inside, {".".join([*path, key])}, is left out: it is a '
                'program, and running it could execute any code',
                logger='current',
                level=logging.WARNING,
            )


def sets_values(text: Any) -> bool:
    """Whether a Python config consists of assignments of literals alone."""
    # mmengine substitutes environment variables and bases before it executes the text
    if not isinstance(text, str) or '{{' in text:
        return False
    try:
        return all(map(is_assignment, ast.parse(text).body))
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ):  # the last two: deep nesting
        return False


def is_assignment(line: ast.stmt) -> bool:
    """Whether a line assigns a literal; bases do not count, since mmengine would execute them."""
    return (
        isinstance(line, ast.Assign)
        and all(isinstance(name, ast.Name) for name in line.targets)
        and not {name.id for name in line.targets} & {'_base_', 'dict'}
        and is_literal(line.value)
        and (all(name.id != 'custom_imports' for name in line.targets) or imports_known(line.value))
    )


def imports_known(value: ast.expr) -> bool:
    """Whether ``custom_imports`` names modules of known packages alone: others would be run."""
    constants = (node.value for node in ast.walk(value) if isinstance(node, ast.Constant))
    names = [constant for constant in constants if isinstance(constant, str)]
    return all(name == 'imports' or name.partition('.')[0] in PACKAGES for name in names)


def is_literal(node: ast.expr) -> bool:
    """Whether it is a number, a string, or a list or dict of these, including ``dict(key=...)``."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd) and is_literal(node.operand)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return all(map(is_literal, node.elts))
    if isinstance(node, ast.Dict):
        return None not in node.keys and all(map(is_literal, [*node.keys, *node.values]))
    if isinstance(node, ast.Call):
        values = [keyword.value for keyword in node.keywords]
        is_dict = isinstance(node.func, ast.Name) and node.func.id == 'dict' and not node.args
        return is_dict and all(map(is_literal, values))
    return False


def resolve(name: str) -> str:
    """The URL of a name in a model zoo; other names are returned unchanged.

    Raises:
        CheckpointError: If the zoo has no such model.
    """
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
        raise CheckpointError(f'{name!r}: {scheme} has no {model!r}; it has {", ".join(models)}')
    return models[model]
