"""Configs that nobody named: beside a checkpoint, inside one, or in the folder of a run.

mmengine imports and calls whatever a ``type`` names, so a config runs code even if it only assigns
values. A config that the user did not name passes one door, :func:`read_found`: it assigns
literals, and :func:`fault_of` finds nothing in it beyond what the tables here allow.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from inspect import isclass
from pathlib import Path
from typing import Any

import mmengine.registry
from mmengine.config import Config
from mmengine.registry import FUNCTIONS, Registry

from mmeffvit.errors import UserError
from mmeffvit.registries import CLASSIFICATION
from mmeffvit.utils.files import read_file
from mmeffvit.utils.optional import require
from mmeffvit.utils.schema import is_dict, is_list, is_text

from .beside import LiteralConfig, dumped_values
from .values import dicts_in, keyed_dicts_in

PACKAGES = ('mmengine', 'mmcv', 'mmdet', 'mmseg', 'mmpretrain', 'mmeffvit')
OF_MMCV = ('mmcv.cnn', 'mmcv.ops', 'mmcv.transforms')  # which register their classes
# keys whose text mmengine, mmcv, mmseg or mmpretrain look up in a registry
TYPES = ('type', 'constructor', 'runner_type', 'collate_fn', 'worker_init_fn', 'norm_layer',
         'auto_wrap_policy', 'check_fn', 'param_init_fn')  # fmt: skip
# types that are looked up elsewhere, by the key of their dict
UNREGISTERED = {
    **dict.fromkeys(('nms', 'dqs_cfg'), ('nms', 'soft_nms')),  # mmcv evaluates them
    # attributes of mmcv.ops
    'roi_layer': ('DeformRoIPoolPack', 'ModulatedDeformRoIPoolPack', 'RoIAlign', 'RoIPool',
                  'SimpleRoIAlign'),
}  # fmt: skip
REFUSED_TYPES = (
    'CameraMotionCompensation', 'RFSearchHook',  # they evaluate text
    'LmdbBackend', 'MemcachedBackend', 'PetrelBackend',  # they import a client
    'AimVisBackend', 'ClearMLVisBackend', 'DVCLiveVisBackend', 'MLflowVisBackend',
    'NeptuneVisBackend', 'WandbVisBackend',  # they send to an address of the config
    'OpenImagesChallengeDataset', 'OpenImagesDataset', 'RAM', 'RAMNormal', 'RefCOCO',
    'RefCocoDataset',  # they unpickle files of any name
    'CityScapesMetric', 'CityscapesMetric', 'MOTChallengeMetric',
    'ShapeBiasMetric',  # they remove what was at their outputs
)  # fmt: skip
REFUSED_KEYS = (
    '_base_', 'read_base',
    'sys_path',  # folders to import from
    'trust_remote_code',  # of transformers
)  # fmt: skip
# keys of paths that classes write to, or remove when they are done
OUTPUTS = ('outfile_prefix', 'outfile_path', 'out_dir', 'output_dir', 'test_out_dir',
           'out_file_path', 'file_path', 'save_dir', 'img_save_dir', 'scalar_save_file',
           'config_save_file', 'result_path', 'extra_ann_file', 'filename_tmpl', 'json_trace_path',
           'collect_dir', 'experiment_name')  # fmt: skip
# keys whose text may be an address: weights, and what is only shown
ADDRESSES = ('checkpoint', 'checkpoint_file', 'load_from', 'pretrained', 'teacher_ckpt', 'homepage')
TORCHVISION = 'torchvision/'  # transforms that mmpretrain wraps, by name
SCOPES = ('_scope_', 'default_scope')
# values that choose a way of reading files that runs no code
CHOICES = {
    **dict.fromkeys(SCOPES, PACKAGES),
    'backend_args.backend': ('local', 'disk'),
    'file_client_args.backend': ('local', 'disk'),
    'decode_backend': ('cv2', 'numpy', 'nifti', 'pillow', 'tifffile', 'turbojpeg'),
}
# files whose readers run code, by their endings; mmengine's `load` takes a file named `pkl` for one
PROGRAMS = ('py', 'pkl', 'pickle', 'yml', 'yaml', 'npy')

Classes = Mapping[str, Mapping[str, Any]]  # of packages, by name


def read_found(path: str | Path) -> Config:
    """Read a config that nobody named.

    Raises:
        UserError: If it does more than set values, or asks for more than the tables allow.
    """
    text = read_file(path).decode(errors='replace')
    values = dumped_values(text)
    for _, key, settings in keyed_dicts_in(values or {}):
        if key in UNREGISTERED and str(settings.get('type')).startswith('mmcv.ops.'):
            settings['type'] = settings['type'].rpartition('.')[2]  # a dump of the new style
    fault = 'it is a program' if values is None else fault_of(values)
    if fault:
        raise UserError(
            f'{path} is not read: {fault}. A config that is found, not named, may only set values '
            f'of registered classes of {", ".join(PACKAGES)}. If you trust it, name it, with the '
            f'checkpoint after it: {path} CHECKPOINT'
        )
    for name in imports_of(values):
        import_module(name)
    for _, settings in dicts_in(values):
        if is_teacher(settings):
            settings['trusted'] = False
    values['work_dir'] = str(Path(path).parent)  # the folder may have been moved
    try:
        return LiteralConfig(values, cfg_text=text, filename=str(path))
    except (KeyError, TypeError) as error:  # a reserved key, a key that is not text
        raise UserError(f'{path}: {error}') from error


def fault_of(values: Mapping[Any, Any]) -> str | None:
    """The first value of a config that is not allowed, and why; None if all are."""
    for name in imports_of(values):
        if not is_text(name) or name.partition('.')[0] not in PACKAGES:
            return f'custom_imports imports {name!r:.80}'
    found = list(keyed_dicts_in(values))
    scopes = [each.get(name) for _, _, each in found for name in SCOPES]
    known = {'mmengine': classes_of('mmengine')}
    known |= {scope: classes_of(scope) for scope in PACKAGES if scope in scopes}
    if 'mmpretrain' in known:
        import_module(CLASSIFICATION)  # registers in our registry, which does not import it
    for place, key, settings in found:
        for name, value in settings.items():
            reason = why_refused(str(name), value, str(key), settings, known)
            if reason:
                return f'{place}{"." if place else ""}{name} is {value!r:.80}, {reason}'
    return None


def why_refused(
    name: str, value: Any, key: str, settings: Mapping[Any, Any], known: Classes
) -> str | None:
    """Why an item of a dict is not allowed; ``key`` is the key of the dict."""
    if name in REFUSED_KEYS:
        return 'which may read or import other programs'
    for choice in (name, f'{key}.{name}'):
        if choice in CHOICES and value is not None and value not in CHOICES[choice]:
            return f'not one of {", ".join(CHOICES[choice])}'
    if name in TYPES and str(value).rpartition('.')[2] in REFUSED_TYPES:
        return 'which may run code, send data or remove files'
    if name in TYPES and (is_text(value) or name == 'type'):
        return None if is_allowed_type(value, key, known) else 'which is not a registered class'
    if name in OUTPUTS and is_text(value) and is_outside(value):
        return 'which is outside of the current folder'
    if name == 'dtype' and is_text(value) and not value.isidentifier():
        return 'which mmpretrain would evaluate'
    if name == 'teacher_config' and is_text(value):
        return 'the path of another config'
    if name == 'teacher' and is_teacher(settings):
        return None  # the hook reads it through the same door
    texts = value if is_list(value) else [value]
    if name not in ADDRESSES and any(is_text(text) and '://' in text for text in texts):
        return 'an address on a network'
    if any(is_text(text) and text.lower().rpartition('.')[2] in PROGRAMS for text in texts):
        return f'a file of a kind that runs code when it is read (.{", .".join(PROGRAMS)})'
    return None


def is_outside(path: str) -> bool:
    """Whether a path of an output leads out of the current folder."""
    return path.startswith(('/', '~')) or '..' in path or '://' in path


def is_allowed_type(name: Any, key: str, known: Classes) -> bool:
    """Whether the type of a dict is the name or the import path of a registered class."""
    if not is_text(name):
        return False
    if name in UNREGISTERED.get(key, ()) or name in names_in_tables(key):
        return True
    if '.' not in name:
        return name in FUNCTIONS.module_dict or any(name in classes for classes in known.values())
    scope, _, inner = name.partition('.')
    if scope not in known:
        known = {**known, scope: classes_of(scope)}
    return inner in known[scope] or is_path_of_class(name, known)


def is_path_of_class(path: str, known: Classes) -> bool:
    """Whether an import path, as configs in mmengine's new style are dumped, is of such a class."""
    module, _, name = path.rpartition('.')
    classes = [cls for found in known.values() for cls in found.values()
               if isclass(cls) and cls.__name__ == name]  # fmt: skip
    if any(f'{cls.__module__}.{cls.__qualname__}' == path for cls in classes):
        return True
    exports = module.partition('.')[0] in (*PACKAGES, 'torch')  # at shorter paths, too
    return exports and getattr(sys.modules.get(module), name, None) in classes


def classes_of(scope: str) -> dict[str, Any]:
    """The registered classes of a package by name; mmengine's include mmcv's."""
    if scope not in PACKAGES or scope == 'mmcv' or find_spec(scope) is None:
        return {}
    if scope == 'mmengine':
        for module in OF_MMCV if find_spec('mmcv') else ():
            require(module)
    holder = mmengine.registry if scope == 'mmengine' else import_module(f'{scope}.registry')
    found = {}
    for registry in vars(holder).values():
        if isinstance(registry, Registry) and registry.scope == scope:
            registry.import_from_location()
            found.update({
                name: each for name, each in registry.module_dict.items()
                if isclass(each) or name.startswith(TORCHVISION)
            })  # fmt: skip
    return found


def names_in_tables(key: str) -> set[str]:
    """The names that an argument of our backbones looks up in their own tables."""
    from mmeffvit.models import families

    tables = dict(attention='attentions', downsampling='attentions', arch='variants').get(key)
    return {name for cls in families().values() if tables for name in getattr(cls, tables)}


def imports_of(values: Mapping[Any, Any]) -> list[Any]:
    """The modules that a config imports."""
    imports = values.get('custom_imports')
    names = imports.get('imports') if is_dict(imports) else imports
    return list(names) if is_list(names) else [names] if names else []


def is_teacher(settings: Mapping[Any, Any]) -> bool:
    """Whether a dict is of :class:`mmeffvit.train.distillation.teacher.TeacherHook`."""
    return str(settings.get('type')).rpartition('.')[2] == 'TeacherHook'
