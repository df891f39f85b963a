#!/usr/bin/env python
"""Train a model of mmdet or mmseg as its config says."""

from arguments import make_parser, run_options

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.engine.launch import train


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument('--amp', action='store_true', help='mixed precision')
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        metavar='CHECKPOINT',
        help='go on from CHECKPOINT, or from the newest whole one in the work dir',
    )
    parser.add_argument(
        '--auto-scale-lr', action='store_true', help='scale the learning rate by the batch size'
    )
    parser.add_argument(
        '--no-check',
        dest='check',
        action='store_false',
        help='train without looking for faults of the config first',
    )
    args = parser.parse_args()
    with exit_with_message(args.debug):
        train(
            args.config,
            run_options(args),
            amp=args.amp,
            resume=args.resume,
            auto_scale_lr=args.auto_scale_lr,
            check=args.check,
        )


if __name__ == '__main__':
    main()
