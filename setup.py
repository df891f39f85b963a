"""Packaging: ``mmeffvit`` with the configs and the tools inside, and one file for mmcv."""

import shutil
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
CARRIED = ('configs', 'tools')
MODELS = 'model-index.yml'
OPERATORS = Path('mmcv', '_ext.py')  # where mmcv looks for its operators


class BuildWithConfigs(build_py):
    """Copy configs, tools and the model index to ``mmeffvit/.mim``, where mim expects them.

    The file with which mmcv finds our operators goes to mmcv's folder.
    """

    def run(self) -> None:
        super().run()
        editable = getattr(self, 'editable_mode', False)
        # files outside the checkout go directly into the wheel of an editable installation
        library = self.get_finalized_command('install').install_lib if editable else self.build_lib
        target = Path(library, OPERATORS.parent.name)
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / 'mmeffvit' / 'models' / 'operators' / OPERATORS.name, target)
        if editable:
            return  # the checkout itself is used
        for name in CARRIED:
            target = Path(self.build_lib, 'mmeffvit', '.mim', name)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns('__pycache__'))
        shutil.copy(ROOT / MODELS, target.parent)


def provider(package: str, official: str) -> str:
    """Return the installed distribution that provides ``package``, else the official one.

    Maintained forks provide the same package under another distribution name; requiring the
    official one too would overwrite their files.
    """
    for found in distributions(path=[sysconfig.get_path('purelib')]):
        if any(file.as_posix() == f'{package}/__init__.py' for file in found.files or ()):
            return found.metadata['Name']
    return official


def requirement(package: str, official: str, versions: str) -> str:
    name = provider(package, official)
    # a fork has other version numbers
    return official + versions if name == official else name


namespace: dict[str, str] = {}
exec((ROOT / 'mmeffvit' / 'version.py').read_text(), namespace)

TRAINING = ['torch>=2.6', requirement('mmengine', 'mmengine', '>=0.10.0')]
OPENMMLAB = [
    *TRAINING,
    'torchvision>=0.21',
    requirement('mmcv', 'mmcv-lite', '>=2.1.0,<2.2.0'),
    'setuptools<82',  # mmengine imports pkg_resources to read configs of mmdet and mmseg by name
]
setup(
    name='mmeffvit',
    version=namespace['__version__'],
    description='Efficient ViT backbones for detection and segmentation with OpenMMLab',
    long_description=(ROOT / 'README.md').read_text(),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    python_requires='>=3.10',
    packages=find_packages(include=['mmeffvit', 'mmeffvit.*']),
    package_data={'mmeffvit': ['py.typed'], 'mmeffvit.deploy.web': ['static/*']},
    cmdclass={'build_py': BuildWithConfigs},
    entry_points={'console_scripts': ['mmeffvit = mmeffvit.cli.main:main']},
    # none, since exported files run without torch; OpenMMLab's packages do not require it either
    install_requires=[],
    extras_require={
        'backbones': TRAINING,
        'det': [*OPENMMLAB, requirement('mmdet', 'mmdet', '>=3.3.0,<4')],
        'seg': [
            *OPENMMLAB,
            requirement('mmseg', 'mmsegmentation', '>=1.2.0,<2'),
            'ftfy',
            'regex',
        ],
        'cls': [*OPENMMLAB, requirement('mmpretrain', 'mmpretrain', '>=1.2.0,<2'), 'timm>=1.0'],
        'predict': ['numpy', 'onnxruntime>=1.20', 'opencv-python-headless', 'pillow'],
        'onnx': ['onnx>=1.16', 'onnxscript>=0.5', 'onnxruntime>=1.20'],
        'openvino': ['openvino>=2024.4'],
        'int8': ['nncf>=3', 'openvino>=2024.4', 'onnx>=1.16', 'onnxruntime>=1.20'],
        'executorch': ['executorch>=1.0'],
        'coreml': ['coremltools>=9'],
        'litert': ['litert-torch>=0.10,<0.11'],
        'ncnn': ['ncnn>=1.0.20260101', 'pnnx>=20261020'],
        'eval': ['hotcoco>=1.3'],
        'completion': ['argcomplete>=3'],
        'docs': ['mkdocs-material>=9.5', 'mkdocstrings-python>=2'],
        'hub': ['huggingface_hub>=0.24', 'safetensors>=0.4'],
    },
    classifiers=[
        'Programming Language :: Python :: 3',
        *(f'Programming Language :: Python :: 3.{minor}' for minor in range(10, 14)),
        'Typing :: Typed',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
    ],
)
