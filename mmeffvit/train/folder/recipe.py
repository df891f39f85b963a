"""The training recipe of a small dataset, derived from its images."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

from mmengine.device import get_device

from mmeffvit.data.records import Picture
from mmeffvit.errors import UserError
from mmeffvit.train.engine.processes import usual_processes
from mmeffvit.utils.machine import num_cores
from mmeffvit.utils.text import counted

from .base import Base

STRIDE = 32  # pixels: the coarsest usual stride
DIVISOR = 2 * STRIDE
MIN_SIZE, MAX_SIZE = 64, 8192
HIGHEST = 10**6  # of counts
BATCH = {'cpu': 8, 'accelerator': 16}  # a CPU is no faster with more
SMALL = 256  # pixels; an accelerator gets half as many larger images
SEEN = {'cpu': 16_000, 'accelerator': 100_000}  # images seen, from which the epochs follow
CPU_SIZE = 128  # pixels; a CPU sees fewer larger images, and half as many with a two-stage head
EPOCHS = (10, 300)  # minimum and maximum
AUTO_BATCH = 'auto'
MAX_BATCH = {'cpu': 8, 'accelerator': 64}  # of a process, that --batch auto tries
VALIDATIONS = 5, 20  # of a run, and if possible a quarter of the images that are trained on
MIN_SHRINKAGE = 2  # of images, from which JPEGs are decoded at a fraction of their size
# from random weights; docs/data.md has what was tried
SCRATCH_BATCH = 4  # on a CPU: more steps help more than larger ones
SCRATCH_RATE, SCRATCH_STEPS = 1e-3, 2000  # of a segmentor
SCRATCH_CROP, MIN_CROP = 0.5, 256  # of a segmentor: share of an image's area; pixels of a side
MAX_WEIGHT = 10.0  # of a class in a loss
OVERSAMPLED = 0.3  # images of classes in less than this share of them are repeated
FEWEST_STEPS = 4  # per epoch, with the default batch size
SPELLED = {  # options whose names differ from those of their fields
    'fraction': 'val-fraction', 'sure': 'sure-score', 'processes': 'nproc-per-node',
    'accumulate': 'grad-accum-steps', 'balance': 'class-balanced',
}  # fmt: skip
MIN_SHARE = 2  # images of a process: batch norms need two
WARM_UP = 0.1  # of all iterations, up to MAX_WARM_UP
MIN_WARM_UP = 2  # iterations: mmengine's LinearLR over one would stay at its first factor
MAX_WARM_UP = 500
AVERAGED = 0.05  # of all iterations, that EMA weights are averaged over
LAST = 0.15  # of the epochs, without mosaic
# images seen, from which a detector from scratch gets medium scales, or mosaics: in fewer, these
# hide what there is to learn
MEDIUM_FROM, MOSAIC_FROM = 10_000, 50_000
PATIENCE = 0.3  # of the epochs


def spelled(name: str) -> str:
    """The option of the command line that sets a field."""
    return f'--{SPELLED.get(name, name.replace("_", "-"))}'


@dataclass(frozen=True)
class Overrides:
    """Numbers that replace the recipe's; None keeps the recipe's."""

    image_size: int | None = None  # side of the images in pixels
    # batch size over all processes; 'auto' for the largest that fits
    batch: int | str | None = None
    processes: int | None = None
    epochs: int | None = None
    # steps in place of epochs, rounded up to whole epochs; a batch that is larger than the training
    # set is lowered
    steps: int | None = None
    # epochs without a better metric after which training stops; 0 never stops
    patience: int | None = None
    accumulate: int = 1  # steps over which gradients are accumulated
    # number of frozen stages of the backbone, after the stem; None trains all
    freeze: int | None = None
    balance: bool = False  # repeat images of rare classes, or weight the classes of a segmentor
    lr: float | None = None  # learning rate after the warm-up

    def check(self) -> None:
        """Reject numbers out of range."""
        size = self.image_size
        if size is not None and (not MIN_SIZE <= size <= MAX_SIZE or size % STRIDE):
            raise UserError(
                f'--image-size is {size}; give a multiple of {STRIDE} from {MIN_SIZE} to {MAX_SIZE}'
            )
        lowest_of = dict(batch=1, processes=1, epochs=1, patience=0, accumulate=1)
        for name, lowest in lowest_of.items():
            value = getattr(self, name)
            if isinstance(value, int) and value < lowest:
                raise UserError(f'{spelled(name)} is {value}; give {lowest} or more')
            if isinstance(value, int) and value > HIGHEST:
                raise UserError(f'{spelled(name)} is {value}; give {HIGHEST:,} or less')
        if self.freeze is not None and self.freeze < 0:
            raise UserError(f'--freeze is {self.freeze}; give 0 for the stem or a number of stages')


@dataclass(frozen=True)
class Recipe:
    """The numbers of a run."""

    image_size: int  # side of the images in pixels
    batch: int  # batch size of each process
    processes: int
    iterations: int  # steps in an epoch; incomplete batches are left out
    epochs: int
    val_every: int  # epochs between validations
    patience: int  # validations without a better metric after which training stops; 0 never stops
    rate: float  # learning rate
    ema_momentum: float  # share of the new weights in the average
    last_epochs: int  # epochs without mosaic at the end
    workers: int  # data-loading processes
    from_scratch: bool = False  # whether nothing is pretrained
    shrinks_images: bool = False  # whether the typical image has at least twice the training size
    # height and width in pixels of training images from scratch: half of the area of a segmentor's,
    # the shape that a detector's fit in; None for squares of ``image_size``
    crop: tuple[int, int] | None = None

    @property
    def seen(self) -> int:
        """Images seen in all epochs together."""
        return self.epochs * self.iterations * self.batch * self.processes

    @property
    def has_mosaic(self) -> bool:
        return not self.from_scratch or self.seen >= MOSAIC_FROM


def make_recipe(
    base: Base,
    pictures: Sequence[Picture],
    overrides: Overrides,
    *,
    from_scratch: bool = False,
    num_val: int = 0,
) -> Recipe:
    """The numbers for a model and its training images; ``num_val`` are validated."""
    count = len(pictures)
    longer = median(max(picture.size) for picture in pictures)
    usual = min(base.image_size, DIVISOR * math.ceil(longer / DIVISOR))
    size = overrides.image_size or max(MIN_SIZE, usual)
    largest = SCRATCH_BATCH if from_scratch else BATCH['cpu']
    crop = None
    if from_scratch and not base.is_segmentor:
        crop = fit_shape(pictures, size)
    elif from_scratch and not overrides.image_size:
        own = own_size(pictures, base.image_size)
        crop, size = (fit_crop(own[0]), fit_crop(own[1])), min(own)
        if crop != own:
            largest = round(largest / SCRATCH_CROP)
    batch = overrides.batch or default_batch(size, count, overrides.processes, largest)
    if overrides.steps:
        batch = min(batch, count)
    if batch > count:
        what = f'--batch is {batch}'
        if not overrides.batch:
            wanted = counted(batch // MIN_SHARE, 'process')
            what = f'training in {wanted} needs {batch} images'
        raise UserError(f'{what}, but the training set has {counted(count, "image")}')
    processes = fit_processes(overrides.processes, batch)
    is_repeated = overrides.balance and not base.is_segmentor
    number = num_repeated(pictures) if is_repeated else count
    if not base.is_segmentor:  # the sampler of epochs repeats images until all processes have some
        number = math.ceil(number / processes) * processes
    iterations = number // batch
    epochs = overrides.epochs or fit_epochs(base, size, count)
    if base.is_segmentor and from_scratch and not overrides.epochs:
        epochs = min(max(epochs, math.ceil(SCRATCH_STEPS / iterations)), EPOCHS[1])
    if overrides.steps:
        epochs = math.ceil(overrides.steps / iterations)
    val_every = fit_validations(epochs, 4 * num_val / count)
    patience = math.ceil(PATIENCE * epochs) if overrides.patience is None else overrides.patience
    total = epochs * iterations
    return Recipe(
        image_size=size,
        batch=batch // processes,
        processes=processes,
        iterations=iterations,
        epochs=epochs,
        val_every=val_every,
        patience=math.ceil(patience / val_every),
        rate=overrides.lr
        or fit_rate(base, batch * overrides.accumulate, from_scratch=from_scratch),
        ema_momentum=ema_momentum(total),
        last_epochs=max(1, round(LAST * epochs)),
        workers=fit_workers(processes),
        from_scratch=from_scratch,
        shrinks_images=longer >= MIN_SHRINKAGE * size,
        crop=crop,
    )


def fit_shape(pictures: Sequence[Picture], size: int) -> tuple[int, int]:
    """The smallest height and width for all images, resized to a longer side of ``size`` pixels."""
    sides = zip(
        *((size * side / max(picture.size) for side in picture.size) for picture in pictures),
        strict=True,
    )
    height, width = (STRIDE * math.ceil(round(max(side)) / STRIDE) for side in sides)
    return height, width


def own_size(pictures: Sequence[Picture], largest: int) -> tuple[int, int]:
    """Height and width of the typical image, up to ``largest`` each: none is enlarged."""
    sides = zip(*(picture.size for picture in pictures), strict=True)
    height, width = (max(MIN_SIZE, min(largest, round(median(side)))) for side in sides)
    return height, width


def fit_crop(side: int) -> int:
    """A side of the crops of images with this side: smaller crops are more steps for their cost."""
    smaller = STRIDE * round(side * math.sqrt(SCRATCH_CROP) / STRIDE)
    return min(side, max(MIN_CROP, smaller))


def num_repeated(pictures: Sequence[Picture]) -> int:
    """Images in an epoch of mmengine's ClassBalancedDataset (arXiv:1908.03195)."""
    labels = [{item.label for item in picture.objects} for picture in pictures]
    counts = Counter(chain.from_iterable(labels))
    times = {
        label: math.ceil(math.sqrt(OVERSAMPLED / (count / len(pictures))))
        for label, count in counts.items()
    }
    return sum(max((times[label] for label in found), default=1) for found in labels)


def class_weights(counts: Sequence[int]) -> list[float]:
    """Weights of classes, inverse to the square roots of their pixels or objects: 1 on average."""
    counts = [max(count, 1) for count in counts]
    roots = [math.sqrt(count) for count in counts]
    return [round(min(MAX_WEIGHT, sum(counts) / sum(roots) / root), 2) for root in roots]


def fit_epochs(base: Base, size: int, count: int) -> int:
    """Epochs: fewer, the more images there are, and on a CPU the longer a step takes."""
    seen = SEEN[device_kind()]
    if device_kind() == 'cpu':
        stages = 2 if 'roi_head' in base.config.model else 1
        seen = seen / stages * min(1.0, CPU_SIZE / size)
    return min(max(math.ceil(seen / count), EPOCHS[0]), EPOCHS[1])


def fit_validations(epochs: int, cheap: float) -> int:
    """Epochs between validations, which cost little if they are at least ``cheap`` epochs apart."""
    fewest, most = VALIDATIONS
    return max(1, round(epochs / most), min(math.ceil(cheap), epochs // fewest))


def fit_warm_up(total: int) -> int:
    """Warm-up steps of ``total``; none in very short runs."""
    if total < 2 * MIN_WARM_UP:
        return 0
    return max(MIN_WARM_UP, min(MAX_WARM_UP, round(WARM_UP * total)))


def ema_momentum(total: int) -> float:
    """The share of new weights in EMA weights for a run of ``total`` steps."""
    return float(f'{min(0.1, 1 / max(1.0, AVERAGED * total)):.1g}')


def default_batch(size: int, count: int, wanted: int | None, largest: int) -> int:
    """Batch size of the processes together, for ``count`` images of a size in pixels.

    At least four iterations in an epoch of a small set, two images per process, and at most
    ``largest`` images on a CPU.
    """
    processes = wanted or usual_processes()
    if wanted is None and count < FEWEST_STEPS * MIN_SHARE * processes:
        processes = 1
    batch = largest
    if device_kind() == 'accelerator':
        batch = BATCH['accelerator'] // (2 if size > SMALL else 1) * processes
    batch = min(batch, count // FEWEST_STEPS)
    return max(MIN_SHARE, batch // processes) * processes


def device_kind() -> str:
    return 'cpu' if get_device() == 'cpu' else 'accelerator'


def batch_limit(count: int, processes: int) -> int:
    """The largest batch size of a process that --batch auto tries."""
    largest = MAX_BATCH[device_kind()] * processes
    return max(2, min(largest, count // 4) // processes)


def fit_processes(wanted: int | None, batch: int) -> int:
    """The number of processes that share a batch equally."""
    if wanted is None:
        usual = usual_processes()
        return usual if batch % usual == 0 and batch // usual >= MIN_SHARE else 1
    if batch % wanted:
        raise UserError(
            f'--nproc-per-node is {wanted}, which cannot share a batch of {batch} equally'
        )
    return wanted


def why_one_process(batch: int, wanted: int | None, num_images: int) -> str:
    """Why the usual number of processes is not used; empty if it is, was set, or has no cure."""
    usual = usual_processes()
    if wanted is not None or usual == 1 or fit_processes(None, batch) == usual:
        return ''
    multiple = max(MIN_SHARE * usual, batch - batch % usual)
    if multiple > num_images:
        return ''
    return (
        f'one process, since {usual} cannot share a batch of {batch}: --batch {multiple} uses all'
    )


def fit_workers(processes: int) -> int:
    """Data-loading processes per training process: from the remaining cores, up to 8."""
    if get_device() != 'cpu':
        return max(1, min(8, num_cores() // processes))
    return min(2, max(0, num_cores() - processes) // processes)


def fit_rate(base: Base, batch: int, *, from_scratch: bool = False) -> float:
    """The learning rate of the base, scaled to another batch size.

    With the batch size for SGD, with its square root for adaptive optimizers (arXiv:2205.10287).
    From scratch, adaptive optimizers keep the rate of the base for smaller batches: there are few
    steps, and nothing to forget. The rate of a segmentor's base is for pretrained weights.
    """
    if from_scratch and base.is_segmentor and base.optimizer['type'] != 'SGD':
        return max(SCRATCH_RATE, base.optimizer['lr'])
    ratio = batch / base.batch_size
    power = 1.0 if base.optimizer['type'] == 'SGD' else 0.5
    factor = max(1.0, ratio**power) if from_scratch and power < 1.0 else ratio**power
    return float(f'{base.optimizer["lr"] * factor:.2g}')
