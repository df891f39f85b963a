#!/usr/bin/env python
from mmeffvit.cli.complexity import main

if __name__ == '__main__':
    main()
