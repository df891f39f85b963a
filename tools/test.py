#!/usr/bin/env python
from mmeffvit.cli.test import main

if __name__ == '__main__':
    main()
