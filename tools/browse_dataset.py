#!/usr/bin/env python
from mmeffvit.cli.browse import main

if __name__ == '__main__':
    main()
