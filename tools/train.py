#!/usr/bin/env python
from mmeffvit.cli.train import main

if __name__ == '__main__':
    main()
