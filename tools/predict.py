#!/usr/bin/env python
from mmeffvit.cli.predict import main

if __name__ == '__main__':
    main()
