#!/usr/bin/env python
from mmeffvit.cli.prune import main

if __name__ == '__main__':
    main()
