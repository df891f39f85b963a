#!/usr/bin/env python
from mmeffvit.cli.prepare_voc_coco import main

if __name__ == '__main__':
    main()
