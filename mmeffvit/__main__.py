"""``python -m mmeffvit``: versions, whether the hosts work here, and where the configs lie."""

import platform
from importlib.metadata import PackageNotFoundError, version

import torch

import mmeffvit
from mmeffvit.engine.errors import UserError
from mmeffvit.engine.hosts import require


def main() -> None:
    print(f'{"python":<12}{platform.python_version()} on {platform.platform()}')
    print(f'{"mmeffvit":<12}{mmeffvit.__version__}')
    print(f'{"torch":<12}{torch.__version__}, {torch.get_num_threads()} threads')
    for package in ('mmengine', 'numpy', 'opencv-python', 'timm'):
        print(f'{package:<12}{installed_version(package)}')
    for package in ('mmcv', 'mmdet', 'mmseg'):
        print(f'{package:<12}{state(package)}')
    for name in ('configs', 'tools'):
        print(f'{name:<12}{mmeffvit.resource_dir(name)}')


def installed_version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return 'not installed'


def state(package: str) -> str:
    try:
        require(package)
    except UserError as error:
        return str(error)
    return f'{__import__(package).__version__}, works'


if __name__ == '__main__':
    main()
