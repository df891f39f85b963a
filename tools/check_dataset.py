#!/usr/bin/env python
from mmeffvit.cli.check_dataset import main

if __name__ == '__main__':
    main()
