#!/usr/bin/env python
from mmeffvit.cli.plot_curves import main

if __name__ == '__main__':
    main()
