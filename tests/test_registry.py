"""Plain and scoped names in configs of mmdet and mmseg, and the cost of importing."""

import pytest
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import Registry
from torch import nn

from mmeffvit.registry import register_backbone
from tests.conftest import run_python

FOREIGN = ('mmdet', 'mmseg', 'mmpretrain', 'mmcv', 'timm', 'torchvision', 'matplotlib.pyplot')


def test_importing_loads_neither_mmdet_nor_mmseg_nor_operators():
    code = f'import mmeffvit, sys; print([m for m in {FOREIGN} if m in sys.modules])'
    assert run_python('-c', code).stdout.strip() == '[]'


NAMES = """
import os
import sys

import mmengine.config
import mmdet.registry
import mmseg.registry

assert 'mmeffvit' not in sys.modules
for registry in (mmdet.registry.MODELS, mmseg.registry.MODELS):
    if os.fork():  # every build in a forked process, where our names are not registered yet
        os.wait()
    else:
        {build}
        os._exit(0)
"""


def test_scoped_names_work_without_imports_in_mmdet_and_mmseg():
    build = (
        "print(registry.build(dict(type='mmeffvit.SwiftFormer', arch='xs')).channels, flush=True)"
    )
    channels = '(48, 56, 112, 220)'
    assert run_python('-c', NAMES.format(build=build)).stdout.splitlines()[-2:] == [channels] * 2


def test_plain_names_work_after_custom_imports_in_mmdet_and_mmseg(tmp_path):
    config = tmp_path / 'existing.py'
    config.write_text(
        "custom_imports = dict(imports=['mmeffvit'])\n"
        "backbone = dict(type='SwiftFormer', arch='l1')\n"
    )
    build = (
        f'config = mmengine.config.Config.fromfile({str(config)!r}); '
        'print(registry.build(config.backbone).channels, flush=True)'
    )
    channels = '(48, 96, 192, 384)'
    assert run_python('-c', NAMES.format(build=build)).stdout.splitlines()[-2:] == [channels] * 2


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
