"""Plots of the similarity and the importance of the heads of a model."""

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmeffvit.analysis.attention.sheet import short
from mmeffvit.analysis.figures import save_figure

from .analyze import Head, HeadAnalysis

INCHES = 0.3  # width of a layer
KINDS = {'outputs': ('C0', -0.12), 'maps': ('C1', 0.12)}  # color, and shift in layers


def draw_heads(analysis: HeadAnalysis, path: Path) -> None:
    """Draw one point per head and layer into a PNG: similarities, and the metric without it."""
    measured = any(head.metrics for heads in analysis.layers.values() for head in heads)
    width = max(7.0, 2 + INCHES * len(analysis.layers))
    figure = Figure(figsize=(width, 6.5 if measured else 4), layout='constrained')
    figure.suptitle(
        f'{analysis.subject["config"]}, {analysis.subject["images"]} images', fontsize='medium'
    )
    panels = figure.subplots(1 + measured, 1, sharex=True, squeeze=False)[:, 0]
    draw_similarities(panels[0], analysis)
    if measured:
        draw_metric(panels[1], analysis)
    names = list(map(short, analysis.layers))
    panels[-1].set_xticks(range(len(names)), names, rotation=45, ha='right', fontsize='x-small')
    save_figure(figure, path)


def draw_similarities(axes: Axes, analysis: HeadAnalysis) -> None:
    for kind, (color, shift) in KINDS.items():
        draw_points(axes, analysis, attrgetter(kind), shift=shift, color=color, label=kind)
    axes.axhline(0, color='0.8', linewidth=0.8, zorder=0)
    axes.set_ylabel('mean cosine similarity\nto the other heads', fontsize='small')
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize='small')


def draw_metric(axes: Axes, analysis: HeadAnalysis) -> None:
    metric, full = analysis.metric, analysis.baseline[analysis.metric]
    axes.axhline(full, color='0.5', linestyle=':', label=f'all heads: {full}')
    without = dict(color='C3', label='without one head')
    alone = dict(color='C4', label='with one head left')
    draw_points(axes, analysis, lambda head: (head.metrics or {}).get(metric), **without)
    draw_points(axes, analysis, lambda head: (head.alone or {}).get(metric), **alone)
    axes.set_ylabel(metric, fontsize='small')
    axes.legend(fontsize='small')


def draw_points(
    axes: Axes,
    analysis: HeadAnalysis,
    value_of: Callable[[Head], float | None],
    shift: float = 0.0,
    **style: str,
) -> None:
    """Draw one point per head that has a value, over its layer."""
    points = [
        (position + shift, value)
        for position, heads in enumerate(analysis.layers.values())
        for value in map(value_of, heads)
        if value is not None
    ]
    if points:
        axes.scatter(*zip(*points, strict=True), s=12, alpha=0.6, **style)
