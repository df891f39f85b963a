#!/usr/bin/env python
from mmeffvit.cli.analyze_errors import main

if __name__ == '__main__':
    main()
