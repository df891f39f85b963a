"""Measure similarity of attention heads, and accuracy of a model without each head."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.analysis.heads.analyze import analyze_heads
from mmeffvit.analysis.heads.draw import draw_heads

from ..arguments import MODEL, add_checkpoint, add_config, add_layers, add_out_dir, new_parser


def make_parser() -> ArgumentParser:
    parser = new_parser(
        __doc__, 'analyze heads configs/deformabledetr_resnet_50.py epoch_50.pth --max-images 500'
    )
    add = parser.add_argument
    add_config(parser, MODEL)
    add_checkpoint(parser)
    add_out_dir(parser, 'work_dirs/heads', 'output folder; interrupted runs are resumed')
    add_layers(parser)
    add('--max-images', type=int, metavar='N', help='number of test images (default: all)')
    add('--keep-one', action='store_true', help='also test with only one head per layer')
    add('--no-ablation', dest='ablate', action='store_false', help='only compute similarities')
    return parser


def run(config: str, checkpoint: str | None, out: Path, **values: Any) -> None:
    analysis = analyze_heads(config, checkpoint, out, **values)
    draw_heads(analysis, out / 'heads.png')
    print(f'{analysis}\n{out}: heads.json, heads.csv, heads.png')
