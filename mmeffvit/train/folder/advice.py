"""What to try after a run on a folder."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from mmengine.config import Config

from mmeffvit.models.checkpoints.download import FOLDER
from mmeffvit.models.checkpoints.pretrained import is_pretrained
from mmeffvit.train.engine.metrics import LOW
from mmeffvit.utils.text import counted

PAGE = 'docs/troubleshooting.md, "Why is my AP 0?"'


def advice(
    config: Config, metrics: Mapping[str, float], weights: str | None = None
) -> Iterator[str]:
    """Advice after a low metric, or after training from random weights."""
    name, value = next(iter(metrics.items()), ('', LOW))
    if value < LOW:
        steps = config.epochs * config.iterations
        low = f'{name} is {value} % after {counted(steps, "step")}'
        yield f'{low}: train longer, with --epochs N, or see {PAGE}'
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
