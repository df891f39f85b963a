"""Core ML, Apple's runtime. Conversion works anywhere; only macOS can run the result.

Detectors and segmentors become image models, as Apple's Vision framework and Xcode's preview expect
them.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from mmeffvit.deploy.formats.base import Export
from mmeffvit.deploy.formats.fixed_size import export_fixed, fixed_module, lower_rank
from mmeffvit.deploy.graphs.base import named
from mmeffvit.deploy.graphs.raw import RawGraph, VisionBoxes
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet

tools = require('coremltools', 'Writing .mlpackage')
PRECISION = 'precision'  # of the metadata
PREVIEW = 'com.apple.coreml.model.preview.'
NMS_OUTPUTS = ('confidence', 'coordinates')
THRESHOLDS = ('iouThreshold', 'confidenceThreshold')


def write(export: Export, path: Path) -> str:
    metadata = export.described(export.options.opset)
    if isinstance(export.part, RawGraph):
        metadata['input_layout'] = 'image'
    if isinstance(export.part, VisionBoxes):
        metadata['outputs'] = json.dumps(NMS_OUTPUTS)
    to_coreml(export, path, metadata)
    return 'it runs on macOS only'


def to_coreml(export: Export, out: str | os.PathLike, metadata: Mapping[str, str]) -> None:
    """Convert a graph at one input size to an ML program for iOS 16, macOS 13 or later.

    Detectors and segmentors take an image, backbones an array. In float16, they are computed as
    Apple's Neural Engine does. The saved package is read back.

    Raises:
        UserError: If an operator cannot be converted, or inputs or outputs of the package differ
            from the graph.
    """
    graph, example = export.part, export.example
    program = export_fixed(graph, example, 'Core ML')
    lower_rank(program)
    image = isinstance(graph, RawGraph)
    names = graph.output_names
    model = convert(program, names, export.half, example.shape if image else None)
    if image:
        model = as_image_model(model, graph, metadata)
    precision = 'float16' if export.half else 'float32'
    model.user_defined_metadata.update({**metadata, PRECISION: precision})
    with quiet():
        model.save(str(out))
    check(out, graph, example)


def convert(
    program: torch.export.ExportedProgram,
    names: Sequence[str],
    half: bool,
    image: tuple[int, ...] | None,
) -> Any:
    """Convert a traced program; ``image`` is the shape of an image as input, None for an array."""
    precision = tools.precision.FLOAT16 if half else tools.precision.FLOAT32
    # the program itself scales the pixels, from 0 to 255
    kind = image and tools.ImageType('images', image, color_layout=tools.colorlayout.RGB)
    try:
        with quiet():
            return tools.convert(
                program.run_decompositions({}),
                inputs=[kind] if kind else None,
                outputs=[tools.TensorType(name=name) for name in names],
                convert_to='mlprogram',
                compute_precision=precision,
                minimum_deployment_target=tools.target.iOS16,
                skip_model_load=True,
            )
    except (NotImplementedError, ValueError, RuntimeError) as error:
        raise UserError(f'the model cannot be converted to Core ML: {error}') from error


def as_image_model(model: Any, graph: RawGraph, metadata: Mapping[str, str]) -> Any:
    """A converted detector with NMS and class names, or segmentor with a preview in Xcode."""
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
    """A pipeline of the model and Core ML's NMS.

    Its outputs are ``confidence`` (K, classes) and ``coordinates`` (K, 4) of the K remaining boxes,
    which Vision returns as ``VNRecognizedObjectObservation``. ``iouThreshold`` and
    ``confidenceThreshold`` are optional inputs; their defaults come from the config.
    """
    spec = model.get_spec()
    with quiet():
        nms = tools.models.MLModel(nms_of(spec, graph, classes), skip_model_load=True)
        return tools.utils.make_pipeline(model, nms)


def nms_of(spec: Any, graph: VisionBoxes, classes: Sequence[str]) -> Any:
    """The specification of NMS over the outputs of a detector's specification."""
    cfg = graph.full.test_cfg
    suppression = tools.proto.Model_pb2.Model()
    suppression.specificationVersion = spec.specificationVersion
    layer = suppression.nonMaximumSuppression
    layer.iouThreshold = cfg.nms.get('iou_threshold', 0.5)
    layer.confidenceThreshold = cfg.get('score_thr', 0.0)
    layer.pickTop.perClass = not cfg.nms.get('class_agnostic', False)
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


def check(path: str | os.PathLike, graph: nn.Module, example: Tensor) -> None:
    """Raise UserError if the name or shape of an input or output differs from the graph."""
    with torch.no_grad():
        expected = named(graph, graph(example))
    with quiet():
        package = tools.models.MLModel(str(path), skip_model_load=True)
    found = shapes_of(before_pipeline(package.get_spec()))
    expected = {'images': example, **expected}
    wanted = {name: tuple(value.shape) for name, value in expected.items()}
    if found != wanted:
        raise UserError(f'the Core ML package has {found}, but the graph {wanted}')


def run(path: Path, graph: nn.Module, images: NDArray) -> dict[str, NDArray]:
    """Outputs of a package by name, before NMS; on other systems than macOS its graph's.

    A package in float16 is emulated there: every value is rounded to float16. Of a pipeline, the
    first model is run.
    """
    with quiet():
        package = tools.models.MLModel(str(path), skip_model_load=True)
    if sys.platform == 'darwin':
        spec = before_pipeline(package.get_spec())
        model = tools.models.MLModel(spec, weights_dir=package.weights_dir)
        given: Any = images
        if spec.description.input[0].type.WhichOneof('Type') == 'imageType':
            given = Image.fromarray(images[0].transpose(1, 2, 0).astype('uint8'))
        return model.predict({'images': given})
    example = torch.from_numpy(images)
    with torch.no_grad():
        if package.user_defined_metadata[PRECISION] == 'float16':
            values = HalfPrecision(fixed_module(graph, example, 'Core ML')).run(example)
        else:
            values = graph(example)
    return named(graph, values)


class HalfPrecision(fx.Interpreter):
    """Runs a module and rounds weights and values to float16, whose sums are kept in float32."""

    def run_node(self, n: fx.Node) -> Any:
        return pytree.tree_map_only(Tensor, rounded, super().run_node(n))


def rounded(value: Tensor) -> Tensor:
    return value.half().to(value.dtype) if value.is_floating_point() else value


def before_pipeline(spec: Any) -> Any:
    """The specification of the network: the first model of a pipeline."""
    return spec.pipeline.models[0] if spec.WhichOneof('Type') == 'pipeline' else spec


def shapes_of(spec: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs and outputs of a network's specification, by name."""
    found = {}
    for feature in (*spec.description.input, *spec.description.output):
        image, array = feature.type.imageType, feature.type.multiArrayType
        is_image = feature.type.WhichOneof('Type') == 'imageType'
        found[feature.name] = (1, 3, image.height, image.width) if is_image else tuple(array.shape)
    return found
