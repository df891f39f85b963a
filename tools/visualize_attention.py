#!/usr/bin/env python
from mmeffvit.cli.attention import main

if __name__ == '__main__':
    main()
