"""Core ML image models, as Apple's Vision framework and Xcode's preview expect them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mmeffvit.deploy.graphs.raw import RawGraph, VisionBoxes
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet

NMS_OUTPUTS = ('confidence', 'coordinates')
THRESHOLDS = ('iouThreshold', 'confidenceThreshold')
PREVIEW = 'com.apple.coreml.model.preview.'


def as_image_model(model: Any, graph: RawGraph, metadata: Mapping[str, str]) -> Any:
    """The model with NMS and class names, or with what Xcode needs to preview a segmentor.

    Args:
        model: A converted model with an image as input.
        graph: What was converted.
        metadata: `classes` and `palette`, if known.
    """
    classes = json.loads(metadata.get('classes', '[]'))
    if isinstance(graph, VisionBoxes):
        return with_nms(model, graph, classes)
    palette = json.loads(metadata.get('palette', '[]'))
    colors = ['#{:02x}{:02x}{:02x}'.format(*color) for color in palette]
    params = json.dumps({'labels': classes, 'colors': colors})
    preview = {PREVIEW + 'type': 'imageSegmenter', PREVIEW + 'params': params}
    model.user_defined_metadata.update(preview)
    return model


def with_nms(model: Any, graph: VisionBoxes, classes: Sequence[str]) -> Any:
    """A pipeline of the model and Core ML's class-wise NMS.

    Its outputs are ``confidence`` (K, classes) and ``coordinates`` (K, 4) of the K remaining boxes,
    which Vision returns as ``VNRecognizedObjectObservation``. ``iouThreshold`` and
    ``confidenceThreshold`` are optional inputs; their defaults are those of the config.
    """
    tools = require('coremltools', 'Writing .mlpackage')
    spec = model.get_spec()
    with quiet():
        nms = tools.models.MLModel(nms_of(spec, graph, classes), skip_model_load=True)
        return tools.utils.make_pipeline(model, nms)


def nms_of(spec: Any, graph: VisionBoxes, classes: Sequence[str]) -> Any:
    """The specification of NMS over the outputs of a detector's specification."""
    tools = require('coremltools', 'Writing .mlpackage')
    cfg = graph.whole.test_cfg
    suppression = tools.proto.Model_pb2.Model()
    suppression.specificationVersion = spec.specificationVersion
    layer = suppression.nonMaximumSuppression
    layer.iouThreshold = cfg.nms.get('iou_threshold', 0.5)
    layer.confidenceThreshold = cfg.get('score_thr', 0.0)
    layer.pickTop.perClass = True
    shapes = {}
    for feature in spec.description.output:
        shapes[feature.name] = tuple(feature.type.multiArrayType.shape)
        suppression.description.input.add().CopyFrom(feature)
    for kind in NMS_OUTPUTS:
        setattr(layer, f'{kind}InputFeatureName', f'raw_{kind}')
        setattr(layer, f'{kind}OutputFeatureName', kind)
        add_output(suppression, kind, shapes[f'raw_{kind}'])
    for name in THRESHOLDS:
        setattr(layer, f'{name}InputFeatureName', name)
        feature = suppression.description.input.add(name=name)
        feature.type.doubleType.SetInParent()
        feature.type.isOptional = True
    count = shapes['raw_confidence'][1]
    names = classes if len(classes) == count else [str(label) for label in range(count)]
    layer.stringClassLabels.vector.extend(names)
    return suppression


def add_output(spec: Any, name: str, shape: tuple[int, int]) -> None:
    """Add an output with at most as many rows as there are boxes."""
    feature = spec.description.output.add(name=name)
    array = feature.type.multiArrayType
    array.dataType = array.DOUBLE
    for lowest, highest in ((0, shape[0]), (shape[1], shape[1])):
        array.shapeRange.sizeRanges.add(lowerBound=lowest, upperBound=highest)
