#!/usr/bin/env python
from mmeffvit.cli.web import main

if __name__ == '__main__':
    main()
