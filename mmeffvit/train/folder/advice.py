"""What to try after a run on a folder."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mmengine.config import Config

from mmeffvit.config.datasets import name_of
from mmeffvit.models.checkpoints.download import FOLDER
from mmeffvit.models.checkpoints.pretrained import is_pretrained
from mmeffvit.train.engine.metrics import LOW
from mmeffvit.utils.text import listed

SHOWN = 12  # names of classes
PAGE = 'docs/troubleshooting.md, "Why is my AP 0?"'


def advice(
    config: Config,
    metrics: Mapping[str, float],
    weights: str | None = None,
    unlearned: Sequence[str] = (),
) -> Iterator[str]:
    """Advice after a low metric, or after training from random weights.

    Metrics are in percent, ``weights`` is the URL of pretrained ones to suggest, and ``unlearned``
    are the names of classes with a metric of 0.
    """
    name, value = next(iter(metrics.items()), ('', 0.0))
    if value < LOW:
        low = f'{name} is {value} %' if name else 'nothing was detected'
        yield f'{low}: train longer, with --epochs N, or see {PAGE}'
    elif unlearned:
        is_weighted = config.default_scope == 'mmseg' and 'class_weights' in config
        repeats = name_of(config.train_dataloader.dataset) == 'ClassBalancedDataset'
        balance = '' if is_weighted or repeats else ', or --class-balanced'
        them = 'it' if len(unlearned) == 1 else 'them'
        yield (
            f'WARNING: {name.replace("mIoU", "IoU")} is 0 for {listed(unlearned, SHOWN)}: train '
            f'longer, with --epochs {2 * config.epochs}{balance}, or add images of {them}'
        )
    if not config.get('load_from') and not is_pretrained(config.model.backbone.get('init_cfg')):
        yield (
            'WARNING: trained from random weights, which takes many more images and epochs; '
            '--weights FILE starts from pretrained ones'
        )
        if weights is not None and not Path(weights).exists():
            yield (
                f'  on a machine with a network: mmeffvit download {weights} --out-dir DIR\n'
                f'  here: {FOLDER}=DIR mmeffvit train ..., with a copy of DIR'
            )
