#!/usr/bin/env python
from mmeffvit.cli.export import main

if __name__ == '__main__':
    main()
