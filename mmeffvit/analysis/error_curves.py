"""Curves of COCO's error analysis, one figure with a panel for every object size."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file
from mmeffvit.utils.messages import progress

from .coco_errors import AREAS, CURVES, SIZES, ErrorAnalysis, analyze_errors
from .coco_results import PICKLES, read_detections, read_ground_truth
from .figures import save_figure

COLORS = ('#ffffff', '#d9d9d9', '#4f81bd', '#c0504d', '#5ee661', '#7f63a3', '#ff9900')


def draw_curves(analysis: ErrorAnalysis, path: Path, name: str | None = None) -> None:
    """Draw precision over recall of a class, by default the mean, at four object sizes."""
    curves, areas = analysis.curves(name), analysis.areas(name)
    figure = Figure(figsize=(11, 8.5), layout='constrained')  # does not affect pyplot's state
    things = 'boxes' if analysis.iou_type == 'bbox' else 'masks'
    figure.suptitle(f'{things}, {name or f"mean of {len(analysis.classes)} classes"}')
    rows = slice(None) if name is None else [analysis.classes.index(name)]
    totals = analysis.objects[rows].sum(axis=0)
    for i, axes in enumerate(figure.subplots(2, 2).flat):
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel='recall', ylabel='precision')
        axes.set_title(f'{SIZES[i]}: {totals[i]} objects', fontsize='medium')
        if totals[i]:
            fill(axes, curves[:, :, i], areas[:, i])
    save_figure(figure, path)


def fill(axes: Axes, curves: np.ndarray, areas: np.ndarray) -> None:
    """Fill between successive (7, N) curves, with their areas in the legend."""
    recalls = np.linspace(0, 1, curves.shape[1])
    below = np.zeros_like(recalls)
    for curve, area, label, color in zip(curves, areas, CURVES, COLORS, strict=True):
        edge = dict(edgecolor='black', linewidth=0.5)
        text = f'{area:.3f} {label}'
        axes.fill_between(recalls, below, curve, facecolor=color, label=text, **edge)
        below = curve
    axes.legend(loc='lower left', fontsize='small', framealpha=0.9)


def draw_classes(analysis: ErrorAnalysis, folder: Path) -> None:
    """Draw every class into a numbered file; ``names.json`` has the class of each file."""
    files = {f'{number:04d}.png': name for number, name in enumerate(analysis.classes, 1)}
    for file, name in progress(files.items(), 'plots', len(files)):
        draw_curves(analysis, folder / file, name)
    write_file(folder / 'names.json', json.dumps(files, indent=1))


def analyze(
    results: str,
    annotations: str,
    out_dir: Path,
    *,
    types: Sequence[str] = ('bbox',),
    classes: Sequence[str] | None = None,
    areas: Sequence[float] = AREAS,
    score_thr: float = 0.0,
    per_class: bool = False,
) -> list[ErrorAnalysis]:
    """Analyze a results file, and write tables and curves.

    Args:
        results: COCO's JSON or a pickle of mmdet; see :func:`read_detections`.
        annotations: The annotation file.
        out_dir: Output folder, with ``errors.md``, ``errors.json``, ``errors.png`` and optionally
            ``classes``, see :func:`draw_classes`, in a subfolder per type.
        types: 'bbox', 'segm' or both.
        classes: Class names of the model of a pickle.
        areas: Smallest areas of medium and large objects, in pixels.
        score_thr: Detections with a lower score are ignored.
        per_class: Also draw every class.

    Raises:
        UserError: If a file is missing or invalid, or ``classes`` are given for JSON.
    """
    if classes and Path(results).suffix not in PICKLES:
        raise UserError(f'--classes is for .pkl files: {results} has category ids; leave it out')
    truth = read_ground_truth(annotations)
    found = read_detections(results, truth, classes)
    analyses = []
    for iou_type in types:
        analysis = analyze_errors(truth, found, iou_type, areas=areas, score_thr=score_thr)
        folder = out_dir / iou_type
        analysis.save(folder)
        draw_curves(analysis, folder / 'errors.png')
        if per_class:
            draw_classes(analysis, folder / 'classes')
        analyses.append(analysis)
    return analyses
