"""Released detectors, segmentors and classifiers as whole models, with remapped keys.

A file is recognized by its keys alone, so it becomes what a run of ours would have saved before
anything knows the model it goes into.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from mmeffvit.errors import CheckpointError

from . import deit, efficientformerv2, mobilevitv2, pvtv2, shvit, swiftformer
from .load import LoadReport, is_counter, put, require_fit
from .read import WEIGHTS, load_torch_file, read_safetensors, strip_prefixes, weights_in
from .rename import ClassifierLayout, ModelLayout, recognize

MODEL_LAYOUTS: tuple[ModelLayout, ...] = (
    *mobilevitv2.MODEL_LAYOUTS,
    *shvit.MODEL_LAYOUTS,
    *efficientformerv2.MODEL_LAYOUTS,
)
BACKBONE_LAYOUTS = (
    *deit.LAYOUTS,
    *efficientformerv2.LAYOUTS,
    *mobilevitv2.LAYOUTS,
    *pvtv2.LAYOUTS,
    *shvit.LAYOUTS,
    *swiftformer.LAYOUTS,
)
CLASSIFIER_LAYOUTS = tuple(
    layout for layout in BACKBONE_LAYOUTS if isinstance(layout, ClassifierLayout)
)
AUXILIARY = 'auxiliary_head.'  # used in training alone: either side may lack it
RELEASE = 'mmeffvit_release'  # in `meta`: what is known of a file in its authors' layout


@dataclass(frozen=True)
class Head:
    """How a head is recognized by our keys.

    Args:
        name: As configs begin.
        marker: Pattern that a key of this head alone matches.
        per_class: Pattern of the tensors that depend on the number of classes.
        counted: One of these tensors, with ``anchors * (classes + others)`` rows.
        anchors: That predict each class.
        others: Rows of an anchor that are no class.
    """

    name: str
    marker: str
    per_class: str
    counted: str
    anchors: int = 1
    others: int = 0


SEGMENTS = dict(
    per_class=r'^(decode|auxiliary)_head\.conv_seg\.', counted='decode_head.conv_seg.bias'
)
HEADS = (
    Head('ssdlite', r'^bbox_head\.predictors\.', r'^bbox_head\.predictors\.\d\.\d\.(weight|bias)$',
         'bbox_head.predictors.5.0.bias', anchors=4, others=5),
    Head('retinanet', r'^bbox_head\.retina_cls\.', r'^bbox_head\.retina_cls\.',
         'bbox_head.retina_cls.bias', anchors=9),
    Head('maskrcnn', r'^roi_head\.mask_head\.',
         r'^roi_head\.(bbox_head\.fc_(cls|reg)|mask_head\.conv_logits)\.',
         'roi_head.mask_head.conv_logits.bias'),
    Head('pspnet', r'^decode_head\.pools\.', **SEGMENTS),
    Head('deeplabv3', r'^decode_head\.image_pool\.', **SEGMENTS),
    Head('semfpn', r'^decode_head\.scale_heads\.', **SEGMENTS),
    Head('classifier', r'^head\.classifier\.', r'^head\.(classifier|distilled)\.fc\.',
         'head.classifier.fc.bias'),
)  # fmt: skip
CLASSIFIER = HEADS[-1]
# a tensor that one family has, and the variant by its number of rows
BACKBONES = (
    ('backbone.stages.4.downsample.project.conv.weight', 'mobilevitv2',
     {512 * width // 100: f'{width:03d}' for width in (50, 75, 100, 125, 150, 175, 200)}),
    ('backbone.stages.1.downsample.merge.project.conv.weight', 'shvit',
     {224: 's1', 308: 's2', 352: 's3', 336: 's4'}),
    ('backbone.stages.3.downsample.local.conv.weight', 'efficientformerv2',
     {176: 's0', 224: 's1', 288: 's2', 384: 'l'}),
    ('backbone.stages.3.blocks.0.depthwise.weight', 'swiftformer',
     {220: 'xs', 224: 's', 384: 'l1', 512: 'l3'}),
)  # fmt: skip
# endings of configs by the number of classes
DATASETS = {80: '', 1000: '', 150: '_ade20k', 21: '_voc12'}


def head_of(state: Mapping[str, Tensor]) -> Head | None:
    """The head that tensors with our keys have, if it is one of a released model."""
    return next((h for h in HEADS if any(re.search(h.marker, key) for key in state)), None)


def describe(state: Mapping[str, Tensor]) -> str:
    """The name of the config whose model has these tensors, as far as keys and sizes tell.

    Args:
        state: By our keys.
    """
    head, found = head_of(state), []
    found.append(head.name if head else 'a model without a head of a release')
    for key, family, variants in BACKBONES:
        if key in state:
            rows = len(state[key])
            found.append(f'{family}_{variants.get(rows, f"of_{rows}_channels")}')
    if head is None or head.counted not in state:
        return '_'.join(found)
    classes = len(state[head.counted]) // head.anchors - head.others
    return '_'.join(found) + DATASETS.get(classes, f' with {classes} classes')


def read_model(path: Path, map_location: Any = 'cpu', names: tuple[str, ...] = WEIGHTS) -> Any:
    """Read the checkpoint of a whole model, in our layout or in its authors'.

    Args:
        path: A torch file or a safetensors file.
        map_location: As for ``torch.load``.
        names: Where a torch file may have its weights.

    Returns:
        What :func:`as_ours` makes of it.

    Raises:
        CheckpointError: If it cannot be read safely.
    """
    if path.suffix == '.safetensors':
        return as_ours(dict(state_dict=read_safetensors(path), meta={}))
    return as_ours(load_torch_file(path, map_location), names)


def as_ours(content: Any, names: tuple[str, ...] = WEIGHTS) -> Any:
    """Remap a checkpoint in a release's layout; others are returned unchanged.

    Args:
        content: What a file holds.
        names: Where to look for the weights.

    Returns:
        ``state_dict`` by our keys in our order, and ``meta``, where ``RELEASE`` says what it is.
    """
    tensors = {
        key.removeprefix('module.'): value
        for key, value in weights_in(content, names).items()
        if isinstance(key, str)
    }
    layout = recognize(tensors, MODEL_LAYOUTS) or recognize_classifier(tensors)
    if layout is None:
        if release_of(content) is not None:
            del content['meta'][RELEASE]  # the file says so, not we
        return content
    renamed, ignored = layout.rename(tensors)
    state = {new: layout.shaped(new, tensors[old]) for old, new in renamed.items()}
    changed = {key: layout.order(key, value) for key, value in state.items()}
    reordered = {key: value for key, value in changed.items() if value is not None}
    meta = dict(content.get('meta') or {}) if isinstance(content.get('meta'), Mapping) else {}
    if 'CLASSES' in meta:  # of mmdet 2
        meta['dataset_meta'] = dict(classes=tuple(meta['CLASSES']))
    state |= reordered
    meta[RELEASE] = dict(
        model=describe(state), layout=layout.name, ignored=ignored, reordered=list(reordered),
        keys=renamed,
    )  # fmt: skip
    return dict(state_dict=state, meta=meta)


def recognize_classifier(keys: Iterable[str]) -> ClassifierLayout | None:
    """The layout of a released classifier, or None: one of a backbone alone is left as it is."""
    layout = recognize(keys, CLASSIFIER_LAYOUTS)
    return layout if layout and any(map(layout.is_of_head, keys)) else None


def is_classifier(content: Mapping[str, Any]) -> bool:
    """Whether a checkpoint with our keys is of a classifier."""
    return head_of(weights_in(content)) is CLASSIFIER


def release_of(content: Any) -> Mapping[str, Any] | None:
    """What is known of a checkpoint that was in its authors' layout, else None."""
    meta = content.get('meta') if isinstance(content, Mapping) else None
    return meta.get(RELEASE) if isinstance(meta, Mapping) else None


def require_heads(content: Any, checkpoint: object) -> None:
    """Refuse a backbone in place of a whole model.

    Raises:
        CheckpointError: If there is nothing but a backbone.
    """
    weights = weights_in(content)
    if not all(isinstance(key, str) for key in weights):
        return  # reported when they are matched with the model's
    tensors, outside = strip_prefixes(weights)
    if recognize(tensors, BACKBONE_LAYOUTS) and not outside:
        raise backbone_alone(checkpoint)


def backbone_alone(checkpoint: object) -> CheckpointError:
    return CheckpointError(
        f'{checkpoint} holds a backbone alone: the neck and the heads of the model are missing. '
        'Train them, with the file as model.backbone.init_cfg.checkpoint'
    )


def fit(
    module: nn.Module, content: Mapping[str, Any], checkpoint: object, *, new_classes: bool = False
) -> tuple[dict[str, Tensor], LoadReport]:
    """Match the tensors of a checkpoint with those of a module.

    Args:
        module: The model of a config.
        content: What :func:`read_model` returned.
        checkpoint: Its name, for messages.
        new_classes: Whether layers for another number of classes start fresh, or do not fit.

    Returns:
        The tensors to load, and what becomes of all.

    Raises:
        CheckpointError: If a tensor is missing, left over or of another shape, or there are no
            heads; it names what the file holds.
    """
    require_heads(content, checkpoint)
    release = release_of(content) or dict(layout='mmeffvit', ignored=(), reordered=())
    state = {key.removeprefix('module.'): value for key, value in weights_in(content).items()}
    target = module.state_dict()
    head = head_of(state)
    if head is CLASSIFIER and not any(key.startswith('head.') for key in target):
        raise backbone_alone(checkpoint)
    known = f' is {describe(state)} in the {release["layout"]} layout and' if head else ''
    resized = resize_inside(module, state)
    state |= resized
    fresh: list[str] = []
    if new_classes and head is not None:
        fresh = [
            key
            for key, value in state.items()
            if key in target
            and re.search(head.per_class, key)
            and len(value) != len(target[key])
            and value.shape[1:] == target[key].shape[1:]
        ]
    ignored = [key for key in state if key.startswith(AUXILIARY) and not has_auxiliary(target)]
    state = {key: value for key, value in state.items() if key not in (*fresh, *ignored)}
    missing = [key for key in target if key not in state and key not in fresh]
    lacking = [k for k in missing if not is_counter(k) and not _may_lack(k, state)]
    cure = 'Use the config that it belongs to.'
    require_fit(f'{checkpoint}{known}', state, target, lacking, cure)
    report = LoadReport(
        checkpoint=str(checkpoint),
        layout=release['layout'],
        loaded=tuple(state),
        resized=tuple(resized),
        dropped=(*release['ignored'], *ignored),
        missing=tuple(missing),
        reordered=tuple(key for key in release['reordered'] if key in state),
        fresh=tuple(fresh),
    )
    return state, report


def load_whole(
    module: nn.Module, content: Mapping[str, Any], checkpoint: object, *, new_classes: bool = False
) -> LoadReport:
    """Load the tensors that :func:`fit` matches, all of them or none.

    Raises:
        CheckpointError: If it does not fit.
    """
    state, report = fit(module, content, checkpoint, new_classes=new_classes)
    put(module, state, checkpoint)
    return report


def resize_inside(module: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the backbone must resize to fit."""
    adapt = getattr(getattr(module, 'backbone', None), 'adapt_weights', None)
    if adapt is None:
        return {}
    prefix = 'backbone.'
    inside = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    return {prefix + key: value for key, value in adapt(inside).items()}


def has_auxiliary(keys: Iterable[str]) -> bool:
    """Whether some of the keys are those of a head that is used in training alone."""
    return any(key.startswith(AUXILIARY) for key in keys)


def _may_lack(key: str, state: Mapping[str, Tensor]) -> bool:
    return key.startswith(AUXILIARY) and not has_auxiliary(state)
