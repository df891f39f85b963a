#!/usr/bin/env python
import sys
from importlib.machinery import PathFinder
from pathlib import Path

if __name__ == '__main__':
    from mmeffvit.cli.profile import main

    main()
else:
    # scripts in this folder find it before the standard library's `profile`, which cProfile imports
    here = Path(__file__).resolve().parent
    others = [folder for folder in sys.path if Path(folder).resolve() != here]
    PathFinder.find_spec(__name__, others).loader.exec_module(sys.modules[__name__])
