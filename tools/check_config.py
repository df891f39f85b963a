#!/usr/bin/env python
from mmeffvit.cli.check_config import main

if __name__ == '__main__':
    main()
