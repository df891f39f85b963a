#!/usr/bin/env python
from mmeffvit.cli.per_class import main

if __name__ == '__main__':
    main()
