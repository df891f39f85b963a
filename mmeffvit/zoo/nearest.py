"""The one of our configs that differs from another config in numbers only."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmeffvit.config.beside import assigned_values
from mmeffvit.config.build import own_model_config
from mmeffvit.config.datasets import eval_dataset
from mmeffvit.config.load import load_config, own_configs
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints import Checkpoint
from mmeffvit.utils.schema import is_number

PLAIN = (bool, int, float, type(None))
MAX_DEPTH = 4  # of lists of numbers
PIPELINE = 'test_dataloader.dataset.pipeline'
SIZES = ('scale', 'size', 'divisor')  # ends of keys of transforms, in pixels
MAX_SIZE = 8192  # pixels, in a config inside a checkpoint
# losses that training on a folder weights by class, and what they are without the weights
WEIGHTED = {
    'mmeffvit.ClassWeightedCrossEntropy': 'CrossEntropyLoss',
    'mmeffvit.ClassWeightedQualityFocalLoss': 'QualityFocalLoss',
}


def is_plain(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether it is a finite number, or made of such numbers alone."""
    if isinstance(value, list | tuple):
        return depth > 0 and all(is_plain(item, depth - 1) for item in value)
    return isinstance(value, PLAIN) and (not isinstance(value, float) or is_number(value))


def flat_values(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The values of a config by dotted keys; a list of numbers is one value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat_values(item, f'{place}.{key}')
    elif isinstance(value, list | tuple) and not is_plain(value):
        for number, item in enumerate(value):
            yield from flat_values(item, f'{place}.{number}')
    else:
        yield place, list(value) if isinstance(value, tuple) else value


def differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The numbers of ``wanted`` that differ in ``known``; None if more than numbers differ."""
    if known.keys() != wanted.keys():
        return None
    changed = {key: value for key, value in wanted.items() if value != known[key]}
    plain = all(is_plain(value) and is_plain(known[key]) for key, value in changed.items())
    return changed if plain else None


def nearest_config(config: Config) -> tuple[str, dict[str, Any]]:
    """The one of our configs whose model differs only in numbers and in weights of classes.

    Returns its name, and the numbers by dotted keys.
    """
    model = own_model_config(config)
    without_class_weights(model)
    wanted = dict(flat_values(model, 'model'))
    own = own_configs()
    stem = Path(config.filename or '').stem
    best: tuple[str, dict[str, Any]] | None = None
    for name in sorted(own, key=lambda name: name != stem):
        other = load_config(own[name])
        if other.default_scope != config.default_scope:
            continue
        options = differences(dict(flat_values(own_model_config(other), 'model')), wanted)
        if options is not None and (best is None or len(options) < len(best[1])):
            best = name, options
        if best is not None and (name == stem or not best[1]):
            break
    if best is None:
        raise UserError(
            f'the model of {config.filename} differs from all our configs in more than '
            'numbers: share its config and a checkpoint instead'
        )
    return best


def without_class_weights(model: Mapping[str, Any]) -> None:
    """Remove the weights of classes in losses, which only a training needs, in place."""
    for head, name in (('decode_head', 'loss_decode'), ('bbox_head', 'loss_cls')):
        loss = (model.get(head) or {}).get(name) or {}
        if loss.get('type') in WEIGHTED:
            loss['type'] = WEIGHTED[loss['type']]
            loss.pop('class_weight', None)


def describe_config(
    name: str, numbers: Mapping[str, Any], meta: Mapping[str, Any]
) -> dict[str, Any]:
    """A config by its name, the numbers that differ, and the classes and palette of its data."""
    palette = meta.get('palette')
    colors = palette if isinstance(palette, list | tuple) else ()  # mmdet has names, too
    return dict(
        name=name,
        cfg_options=numbers,
        classes=list(meta.get('classes') or ()),
        palette=[list(map(int, color)) for color in colors],
    )


def config_inside(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """The config inside a checkpoint, described as :func:`describe_config` does; None if none.

    It is not executed, as it could be any program: it may only differ in numbers from one of ours.
    """
    values = assigned_values(checkpoint.meta.get('cfg'))
    if values is None:
        return None
    stem = Path(str(values.get('work_dir'))).name  # often that of the config, which is tried first
    try:
        config = Config(values, cfg_text=checkpoint.meta['cfg'], filename=f'{stem}.py')
        found = nearest_with_sizes(config) if resizing_of(config) else None
    except (UserError, KeyError, AttributeError, TypeError):
        found = None
    if found is None:
        raise UserError(
            f'the config inside {checkpoint} differs from all of ours in more than numbers: '
            f'give its own config: CONFIG {checkpoint}'
        )
    return describe_config(*found, checkpoint.dataset_meta)


def nearest_with_sizes(config: Config) -> tuple[str, dict[str, Any]]:
    """See :func:`nearest_config`; the numbers of the test pipeline, if there is one, are included.

    Raises:
        UserError: If more than numbers differ.
    """
    name, numbers = nearest_config(config)
    wanted = resizing_of(config)
    sizes = differences(resizing_of(load_config(own_configs()[name])), wanted) if wanted else {}
    if sizes is None:
        raise UserError(
            f'the test pipeline of {config.filename} differs from the one of {name} in more than '
            'numbers: share its config and a checkpoint instead'
        )
    return name, {**numbers, **sizes}


def resizing_of(config: Config) -> dict[str, Any]:
    """The values of the test pipeline by dotted keys, with the sizes of images; empty without."""
    pipeline = (eval_dataset(config) or {}).get('pipeline') or ()
    return dict(flat_values(pipeline, PIPELINE))


def checked_sizes(name: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a test pipeline, tuples where they were written as lists.

    Raises:
        UserError: If one is not a number of pixels.
    """
    sizes = {key: value for key, value in numbers.items() if key.startswith(PIPELINE)}
    for key, value in sizes.items():
        least = 1 if key.endswith(SIZES) else 0
        given = filter(is_number, value if isinstance(value, list) else [value])
        if not all(least <= each <= MAX_SIZE for each in given):
            raise UserError(f'{name}: {key} is {value!r:.80}; give {least} to {MAX_SIZE}')
    return {key: tuple(v) if isinstance(v, list) else v for key, v in sizes.items()}
