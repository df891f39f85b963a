#!/usr/bin/env python
from mmeffvit.cli.convert import main

if __name__ == '__main__':
    main()
