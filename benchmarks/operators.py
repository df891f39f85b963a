"""Time of exported full models by operator, in ONNX Runtime: one model per head."""

import tempfile
from functools import partial
from pathlib import Path

import torch
from mmengine.optim import OptimWrapper
from torch import Tensor, nn

from mmeffvit.config.build import isolated
from mmeffvit.config.load import load_config
from mmeffvit.deploy.formats.onnx.write import ExportOptions, export_graph
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.dense import DenseGraph
from mmeffvit.deploy.graphs.raw import before_nms
from mmeffvit.deploy.graphs.two_stage import MaskRCNNGraph

from . import ort
from .detectors import test_size, untrained
from .part import Cases, Rows, Settings, digits, measured, milliseconds, table
from .store import Row, rounded
from .timing import speed_up

TITLE = 'Operators of full models'
RUNS, SECONDS = 50, 3.0
SHOWN = 4  # other operators
STEPS, SIDE, COLORS = 200, 128, 40  # of the training: images of SIDE pixels, classes
LEARNED, TIMED = 48, 96  # pixels of a region's side, in training and in the timed image
CONFIGS = (
    'rtmdet_swiftformer_xs',
    'maskrcnn_swiftformer_xs',
    'retinanet_shvit_s4',
    'ssdlite_mobilevitv2_050',
    'gflite_shvit_s1',
    'deformabledetr_shvit_s4_single_head',
    'segformer_shvit_s1_ade20k',
    'semfpn_shvit_s4_ade20k',
    'pspnet_mobilevitv2_050_ade20k',
    'deeplabv3_mobilevitv2_050_ade20k',
)
SPREAD, PASSING = 2.0, 5  # standard deviation of logits, pairs above score_thr per object
OBJECTS = 20  # of Mask R-CNN
LARGEST = 512  # pixels: larger images are not needed for shares
GROUPS = {
    # with changes of layout, which ONNX Runtime adds for its convolutions
    'convolutions': ('Conv', 'FusedConv', 'ConvTranspose', 'NhwcFusedConv', 'ReorderInput',
                     'ReorderOutput'),
    'matrix products': ('MatMul', 'FusedMatMul', 'Gemm', 'FusedGemm', 'Einsum'),
    'activations': ('Relu', 'Sigmoid', 'QuickGelu', 'Gelu', 'BiasGelu', 'FastGelu', 'Erf', 'Tanh',
                    'HardSigmoid', 'HardSwish', 'Softmax', 'Clip', 'LeakyRelu'),
    'norms, pooling, sampling': (
        'LayerNormalization', 'SkipLayerNormalization', 'InstanceNormalization', 'MaxPool',
        'AveragePool', 'GlobalAveragePool', 'GridSample', 'RoiAlign', 'Resize', 'Upsample'),
}  # fmt: skip


def cases(settings: Settings) -> Cases:
    names = ['ssdlite_mobilevitv2_050'] if settings.quick else CONFIGS
    return {name: partial(measure, name, settings) for name in names}


def measure(name: str, settings: Settings) -> Row:
    config = load_config(name)
    scope = config.default_scope
    size = tuple(min(side, LARGEST) for side in test_size(config))
    with isolated(scope), tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model = untrained(config)
        image = torch.randint(0, 256, (3, *size), dtype=torch.uint8)
        trained = {}
        if scope == 'mmseg':
            learn_colors(model, 2 if settings.quick else STEPS)
            image, labels = colored(*size, TIMED)
        graph = make_graph(model.eval())
        images = image.flip(0)[None].float()  # read as BGR, as mmseg and mmdet do
        if isinstance(graph, DenseGraph):
            find_some(graph, images)
        elif scope == 'mmdet' and hasattr(model, 'roi_head'):
            find_regions(graph, images)
        path = export_graph(graph, Path(folder, 'model.onnx'), ExportOptions(size, 1))
        if scope == 'mmseg':
            raw = before_nms(graph, size)
            plain = export_graph(raw, path.with_stem('plain'), ExportOptions(size, 1))
            trained = compare_search(path, plain, images, labels, settings)
        run, kinds = ort.operator_times(path, images, 3 if settings.quick else RUNS)
    total = sum(kinds.values())
    shares = {kind: float(f'{taken / total:.4f}') for kind, taken in kinds.items()}
    return dict(size=size, seconds={'run': [run]}, shares=shares, **trained)


def find_some(graph: DenseGraph, images: Tensor) -> None:
    """Scale and shift logits until as many scores as in trained models pass ``score_thr``."""
    head, x, cfg = graph.head, graph.normalize(images), graph.test_cfg
    layers = class_layers(head)
    for weight, _, _ in layers:
        nn.init.normal_(weight)
    with_features = head(graph.network.extract_feat(x))[0]
    scale = SPREAD / torch.cat([level.flatten() for level in with_features]).std()
    for weight, _, _ in layers:
        weight *= scale
    low, high = -30.0, 30.0
    for _ in range(20):
        shift = (low + high) / 2
        for _, bias, sign in layers:
            bias.fill_(sign * shift)
        passing = sum(int((scores > cfg.score_thr).sum()) for scores, *_ in graph.levels(x))
        low, high = (low, shift) if passing > PASSING * cfg.max_per_img else (shift, high)


def find_regions(graph: MaskRCNNGraph, images: Tensor) -> None:
    """As :func:`find_some`, for the classes of the second stage: about :data:`OBJECTS` objects."""
    roi_head, regions = graph.network.roi_head, []
    layer = roi_head.bbox_head.fc_cls
    nn.init.normal_(layer.weight)
    hook = layer.register_forward_pre_hook(lambda _, inputs: regions.append(inputs[0]))
    graph(images)
    hook.remove()
    logits = regions[0] @ layer.weight.T
    layer.weight *= SPREAD / logits.std()
    logits *= SPREAD / logits.std()
    low, high = -30.0, 30.0
    for _ in range(20):
        layer.bias[-1] = (low + high) / 2  # the last class is the background
        scores = (logits + layer.bias).softmax(dim=1)[:, :-1]
        passing = int((scores > roi_head.test_cfg.score_thr).sum())
        few = passing < OBJECTS  # of noise, they hardly overlap
        low, high = (low, (low + high) / 2) if few else ((low + high) / 2, high)


def class_layers(head: nn.Module) -> list[tuple[Tensor, Tensor, float]]:
    """Weights of logits, the bias that moves all scores, and the sign of its effect."""
    if type(head).__name__ == 'SSDLiteHead':
        found = []
        for predictor, anchors in zip(head.predictors, head.num_base_priors, strict=True):
            layer = predictor[-1]  # fused: boxes, then scores; the last class is the background
            biases = layer.bias[4 * anchors :].view(anchors, -1)
            found.append((layer.weight[4 * anchors :], biases[:, -1], -1.0))
        return found
    if type(head).__name__ == 'LightHead':  # classes, then distances
        outputs, count = head.outputs, head.num_classes
        return [(layer.weight[:count], layer.bias[:count], 1.0) for layer in outputs]
    layers = getattr(head, 'rtm_cls', None) or [head.retina_cls]
    return [(layer.weight, layer.bias, 1.0) for layer in layers]


def colored(height: int, width: int, region: int) -> tuple[Tensor, Tensor]:
    """An image (3, H, W) whose colors are its classes, with noise, and the label map (H, W)."""
    palette = torch.randint(0, 256, (COLORS, 3), generator=torch.Generator().manual_seed(0))
    labels = torch.randint(COLORS, (height // region + 2, width // region + 2))
    labels = labels.repeat_interleave(region, 0).repeat_interleave(region, 1)
    top, left = torch.randint(region, (2,)).tolist()
    labels = labels[top : top + height, left : left + width]
    noisy = palette[labels].permute(2, 0, 1) + 8 * torch.randn(3, height, width)
    return noisy.clamp(0, 255).byte(), labels


@torch.enable_grad()
def learn_colors(model: nn.Module, steps: int) -> None:
    """Train a segmentor on generated images for a short time, so that its logits form regions."""
    from mmengine.structures import PixelData
    from mmseg.structures import SegDataSample

    adam = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, 2e-3, total_steps=steps, pct_start=0.2)
    optimizer = OptimWrapper(adam)
    preprocessor = model.data_preprocessor
    preprocessor.size, preprocessor.size_divisor = (SIDE, SIDE), None  # no padding
    model.train()
    for _ in range(steps):
        pairs = [colored(SIDE, SIDE, LEARNED) for _ in range(4)]
        samples = []
        for _, labels in pairs:
            samples.append(SegDataSample(metainfo=dict(img_shape=(SIDE, SIDE))))
            samples[-1].gt_sem_seg = PixelData(data=labels[None])
        model.train_step(
            dict(inputs=[image for image, _ in pairs], data_samples=samples), optimizer
        )
        schedule.step()


def compare_search(
    path: Path, plain: Path, images: Tensor, labels: Tensor, settings: Settings
) -> Row:
    """Compare the file with one that resizes all logits."""
    runs = {name: ort.runner(each, images) for name, each in (('few', path), ('all', plain))}
    few, every = (run()[0] for run in runs.values())
    samples = settings.time(runs, SECONDS, min_rounds=3)
    return dict(
        found=rounded(samples),
        different=int((few != every).sum()),
        right=float(f'{(few[0] == labels).float().mean():.3f}'),
    )


def render(rows: Rows) -> list[str]:
    heading = ['config', 'image', 'ms', *GROUPS, 'others', 'the largest of them']
    known = {kind for group in GROUPS.values() for kind in group}
    lines = []
    for name, row in measured(rows).items():
        cells = [name, '{} x {}'.format(*row['size']), digits(1e3 * row['seconds']['run'][0])]
        for kinds in GROUPS.values():
            cells.append(f'{sum(row["shares"].get(kind, 0.0) for kind in kinds):.0%}')
        rest = {kind: share for kind, share in row['shares'].items() if kind not in known}
        largest = [f'{kind} {share:.1%}' for kind, share in list(rest.items())[:SHOWN]]
        lines.append([*cells, f'{sum(rest.values()):.0%}', ', '.join(largest)])
    text = (
        "Shares of time by ONNX Runtime's profiler, one thread. Detectors have initial weights and "
        'get noise: logits of dense ones are scaled and shifted until five times as many scores as '
        'objects pass `score_thr`, those of Mask R-CNN until it finds 20 objects. Segmentors are '
        'trained briefly on generated regions of 40 classes; a fifth of the cells between their '
        "logits are at borders (ADE20K's label maps: 9 to 15 %). Norms, pooling and sampling "
        '(attention, regions, resizing) are arithmetic of the networks, too; other operators move '
        'values, or select, add and scale them.'
    )
    few = [
        [name, f'{row["right"]:.1%}', *(milliseconds(row['found'][k]) for k in ('all', 'few')),
         speed_up(row['found']['few'], row['found']['all']), row['different']]
        for name, row in measured(rows).items() if 'found' in row
    ]  # fmt: skip
    heading_few = ['config', 'pixel accuracy', 'all classes resized, ms', 'few, ms', 'few : all']
    return [
        *(text, '', *table(heading, lines), ''),
        'The trained segmentors: files that resize the logits of classes that can win, and files '
        'that resize all.',
        *('', *table([*heading_few, 'different pixels'], few)),
    ]
