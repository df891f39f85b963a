#!/usr/bin/env python
from mmeffvit.cli.analyze_heads import main

if __name__ == '__main__':
    main()
