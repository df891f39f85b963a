#!/usr/bin/env python
from mmeffvit.cli.suite import main

if __name__ == '__main__':
    main()
