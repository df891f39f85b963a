#!/usr/bin/env python
import sys

from mmeffvit.cli.main import main

if __name__ == '__main__':
    main(['test', *sys.argv[1:]])
