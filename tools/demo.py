#!/usr/bin/env python
from mmeffvit.cli.demo import main

if __name__ == '__main__':
    main()
