"""Names in configs: plain and scoped, in either host, and what importing costs."""

import pytest
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import Registry
from torch import nn

from mmeffvit.registry import register_backbone
from tests.conftest import run_python

FOREIGN = ('mmdet', 'mmseg', 'mmcv', 'timm', 'torchvision', 'matplotlib.pyplot')


def test_importing_loads_no_host_and_no_operator():
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
    if os.fork():  # every build in a copy of this process, to which our names are new
        os.wait()
    else:
        {build}
        os._exit(0)
"""


def test_the_scoped_name_needs_no_import_line_in_either_host():
    build = (
        "print(registry.build(dict(type='mmeffvit.SwiftFormer', arch='xs')).channels, flush=True)"
    )
    channels = '(48, 56, 112, 220)'
    assert run_python('-c', NAMES.format(build=build)).stdout.splitlines()[-2:] == [channels] * 2


def test_the_plain_name_works_after_custom_imports_in_either_host(tmp_path):
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


def test_a_clash_names_both_classes_and_the_cure():
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
