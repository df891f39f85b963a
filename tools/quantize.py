#!/usr/bin/env python
from mmeffvit.cli.quantize import main

if __name__ == '__main__':
    main()
