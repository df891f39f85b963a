"""Plain and scoped names in configs of mmdet and mmseg, and the cost of importing."""

from importlib import import_module, reload

import mmengine.registry
import pytest
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import Registry
from torch import nn

from mmeffvit.registry import MODELS, register_backbone
from tests.conftest import run_python

FOREIGN = ('mmdet', 'mmseg', 'mmpretrain', 'mmcv', 'timm', 'torchvision', 'matplotlib.pyplot')
HEAVY = ('torch', 'mmengine', 'numpy', 'cv2', 'rich', 'mmeffvit.zoo', 'mmeffvit.inference')


def test_importing_loads_neither_mmdet_nor_mmseg_nor_operators():
    code = f'import mmeffvit.models, sys; print([m for m in {FOREIGN} if m in sys.modules])'
    assert run_python('-c', code).stdout.strip() == '[]'


@pytest.mark.parametrize('run', ['', "mmeffvit.cli.main.main(['--help'])"])
def test_the_package_and_its_help_import_no_other_package(run):
    code = f"""
import atexit, sys, mmeffvit.cli.main
atexit.register(lambda: print([m for m in {HEAVY} if m in sys.modules]))
{run}
"""
    assert run_python('-c', code).stdout.splitlines()[-1] == '[]'


# every code in a process of its own, after ``before`` and torch, but not mmengine: it is hooked
FORKED = """
import os, torch.distributed.fsdp, torchvision.ops
{before}
for code in {codes}:
    if os.fork():
        os.wait()
    else:
        exec(code)
        os._exit(0)
"""


def run_forked(codes: list[str], before: str = '') -> list[str]:
    return run_python('-c', FORKED.format(before=before, codes=codes)).stdout.splitlines()


LOADERS = """
from mmengine.registry import MODELS
from mmengine.runner.checkpoint import CheckpointLoader
loaders = {loader.__module__ for loader in CheckpointLoader._schemes.values()}
print('SwiftFormer' in MODELS.module_dict, *loaders, flush=True)
"""


def test_names_and_loaders_are_registered_whatever_is_imported_first():
    modules = ('registries', 'registry', 'models.shvit.backbone', 'models.layers.conv',
               'models.checkpoints', 'train.engine.checkpoint_loader', 'zoo.models',
               'config.beside')  # fmt: skip
    first = ['import mmengine, mmeffvit', *(f'import mmeffvit.{name}' for name in modules)]
    printed = run_forked([f'{each}\n{LOADERS}' for each in first])
    assert printed == ['True mmeffvit.train.engine.checkpoint_loader'] * len(first)


def test_scoped_names_work_without_imports_and_plain_ones_after_custom_imports(tmp_path):
    config = tmp_path / 'existing.py'
    config.write_text(
        "custom_imports = dict(imports=['mmeffvit'])\n"
        "backbone = dict(type='SwiftFormer', arch='l1')\n"
    )
    before = (
        'import sys, mmengine.config, mmdet.registry, mmseg.registry\n'
        "assert 'mmeffvit' not in sys.modules"
    )
    scoped = "dict(type='mmeffvit.SwiftFormer', arch='xs')"
    plain = f'mmengine.config.Config.fromfile({str(config)!r}).backbone'
    codes = [
        f'print({package}.registry.MODELS.build({built}).channels, flush=True)'
        for package, built in (('mmdet', scoped), ('mmseg', plain))
    ]
    assert run_forked(codes, before)[-2:] == ['(48, 56, 112, 220)', '(48, 96, 192, 384)']


def test_no_name_but_a_backbones_stands_in_another_packages_registry():
    import mmdet.registry
    import mmseg.registry

    import_module('mmeffvit.models.detection'), import_module('mmeffvit.models.segmentation')
    holders = (mmengine.registry, mmdet.registry, mmseg.registry)
    registries = {each for h in holders for each in vars(h).values() if isinstance(each, Registry)}
    found = {
        name
        for registry in registries
        for name, cls in registry.module_dict.items()
        if getattr(cls, '__module__', '').startswith('mmeffvit.')
    }
    assert found == {name for name in MODELS.module_dict if name in ROOT_MODELS.module_dict}


def test_a_name_clash_is_reported_with_both_classes_and_a_fix():
    other = Registry('model', parent=ROOT_MODELS, scope='somebody_else')

    @other.register_module()
    class Contested(nn.Module):
        pass

    theirs = Contested

    class Contested(nn.Module):
        pass

    with pytest.raises(KeyError, match=r"somebody_else.*register_module\(name='MyContested'\)"):
        register_backbone(Contested)
    assert other.get('Contested') is theirs
    assert 'Contested' not in ROOT_MODELS.module_dict
    ROOT_MODELS.children.pop('somebody_else')


def test_a_reloaded_backbone_takes_the_place_of_the_first():
    from mmeffvit.models.deit import backbone as deit

    before = deit.DeiT
    try:
        again = reload(deit).DeiT
        assert again is not before
        assert MODELS.get('DeiT') is ROOT_MODELS.get('DeiT') is again
        assert again('t', resolution=32).variants.keys() == before.variants.keys()
    finally:
        for cls in (before, *before.__subclasses__()):
            for registry in (MODELS, ROOT_MODELS):
                registry.register_module(name=cls.__name__, module=cls, force=True)
            setattr(deit, cls.__name__, cls)
