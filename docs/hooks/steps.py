"""Where the time of a training step goes, and what bfloat16 saves: tables on training speed."""

from benchmarks.part import ratio
from benchmarks.steps import BF16

from .tables import DOCS, MACHINE, seconds, table

PAGE = DOCS / 'training_speed.md'
OTHER = MACHINE.parent / 'amd_epyc_avx512_2_cores'
PLAIN = 'channels_last'


def tables() -> str:
    rows, others = seconds('steps'), seconds('steps', OTHER)
    kinds = list(next(iter(rows.values()))['shares'])
    shares = table(
        ['CPU time in %', *(f'{kind}:' for kind in kinds)],
        [
            [f'`{name}`', *(f'{100 * row["shares"][kind]:.0f}' for kind in kinds)]
            for name, row in rows.items()
        ],
    )
    saved = table(
        ['config', 'Xeon, AMX:', 'EPYC, AVX-512 BF16:'],
        [
            [
                f'`{name}`',
                *(f'{ratio(each[name], BF16, PLAIN).median:.2f}' for each in (rows, others)),
            ]
            for name in rows
        ],
    )
    return f'{shares}\nSpeedup of a step with bfloat16:\n\n{saved}'
