"""``python -m mmeffvit``: the same as the command ``mmeffvit``."""

from mmeffvit.cli.main import main

if __name__ == '__main__':
    main()
