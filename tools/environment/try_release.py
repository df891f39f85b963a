#!/usr/bin/env python
"""Install a built wheel into an empty environment, and run the smallest demonstration from it.

The environment has the tested versions, or the newest, and is removed at the end. The wheel is the
one that `build` makes of the sdist, so that both are tried.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import set_up

DEMONSTRATION = """
from pathlib import Path
from mmeffvit import resource_dir
from mmeffvit.cli.demo import run_demo
from mmeffvit.data.shapes import ShapesSpec
assert Path.cwd() in resource_dir('configs').parents, 'not the installed package'
spec = ShapesSpec(num_train=16, num_val=12, side=64, max_objects=3)
run_demo(Path('demo'), spec=spec, epochs=1)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('dist', type=Path, help='folder with one wheel')
    parser.add_argument('--newest', action='store_true', help='what the index has, without pins')
    arguments = parser.parse_args()
    (wheel,) = arguments.dist.resolve().glob('mmeffvit-*.whl')
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix='mmeffvit-release-') as name:
        folder = Path(name).resolve()
        set_up.use(folder / 'environment')
        set_up.create_venv()
        if arguments.newest:
            set_up.install(*set_up.index_options(), 'torch', 'torchvision')
            set_up.install(f'{wheel}[det,hub]')
        else:
            set_up.install_torch()
            set_up.install('-c', str(set_up.HERE / 'stack.txt'), f'{wheel}[det,hub]')
        set_up.check_opencv()
        set_up.say(f'installed after {set_up.clock(time.monotonic() - start)}')
        run = [str(set_up.PYTHON.with_name('mmeffvit')), 'doctor']
        subprocess.run(run, cwd=folder, check=True)
        subprocess.run([set_up.PYTHON, '-c', DEMONSTRATION], cwd=folder, check=True)
        set_up.say(f'tried after {set_up.clock(time.monotonic() - start)}')


if __name__ == '__main__':
    main()
