"""A seeded, stratified validation split for datasets without one."""

import random
from collections import Counter, defaultdict

from mmeffvit.errors import UserError
from mmeffvit.utils.text import counted

from .records import DataSet, Picture

FRACTION = 0.2
MAX_IMAGES = 5000  # as in COCO: more take time and hardly change a metric


def split_off(data: DataSet, seed: int, fraction: float = FRACTION) -> None:
    """Make ``data.splits['val']``, unless there is one; the test split serves if there is one.

    Classes are split from the rarest to the most frequent, so that both parts have each class.

    Args:
        data: The dataset, changed in place.
        seed: Random seed.
        fraction: Fraction of the images that are held out.

    Raises:
        UserError: If there are fewer than two images.
    """
    if not data.splits.get('val') and data.splits.get('test'):
        data.splits['val'] = data.splits.pop('test')
        return
    if data.splits.get('val'):
        return
    pictures = sorted(data.splits['train'], key=lambda picture: picture.path)
    if len(pictures) < 2:
        raise UserError(
            f'{data.root} has {counted(len(pictures), "image")}; training needs two or more'
        )
    random.Random(seed).shuffle(pictures)
    number = min(max(1, round(fraction * len(pictures))), MAX_IMAGES)
    chosen = choose(pictures, number, fraction)
    data.splits['train'] = [p for i, p in enumerate(pictures) if i not in chosen]
    data.splits['val'] = [p for i, p in enumerate(pictures) if i in chosen]
    for name in ('train', 'val'):
        data.splits[name].sort(key=lambda picture: picture.path)
    data.made_split = dict(seed=seed, fraction=fraction)


def choose(pictures: list[Picture], number: int, fraction: float) -> set[int]:
    """Indices of the images that are held out."""
    labels = [{item.label for item in picture.objects} for picture in pictures]
    having: dict[int, list[int]] = defaultdict(list)  # indices of the images with a class
    for i, found in enumerate(labels):
        for label in found:
            having[label].append(i)
    chosen: set[int] = set()
    held: Counter[int] = Counter()
    for label, places in sorted(having.items(), key=lambda pair: (len(pair[1]), pair[0])):
        for i in places:
            if len(chosen) == number or held[label] >= round(fraction * len(places)):
                break
            if i not in chosen:
                chosen.add(i)
                held.update(labels[i])
    rest = (i for i in range(len(pictures)) if i not in chosen)
    while len(chosen) < number:
        chosen.add(next(rest))
    return chosen
