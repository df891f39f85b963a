"""The parts of the benchmark, in the order of execution."""

from types import ModuleType

from . import (
    ablation,
    alternatives,
    attention,
    backbones,
    choice,
    compiled,
    deployed,
    detectors,
    gemm,
    headlines,
    int8,
    mixers,
    papers,
    phones,
    process,
    scaling,
    throughput,
    training,
    units,
)

PARTS: dict[str, ModuleType] = {
    'backbones': backbones,
    'training': training,
    'deployed': deployed,
    'int8': int8,
    'choice': choice,
    'detectors': detectors,
    'alternatives': alternatives,
    'gemm': gemm,
    'headlines': headlines,
    'papers': papers,
    'phones': phones,
    'scaling': scaling,
    'compiled': compiled,
    'throughput': throughput,
    'attention': attention,
    'mixers': mixers,
    'units': units,
    'process': process,
    'ablation': ablation,
}
