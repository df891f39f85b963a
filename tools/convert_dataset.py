#!/usr/bin/env python
from mmeffvit.cli.convert_dataset import main

if __name__ == '__main__':
    main()
