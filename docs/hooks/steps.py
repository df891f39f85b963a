"""Where the time of a training step goes, in the page on training speed."""

from .tables import DOCS, seconds, table

PAGE = DOCS / 'training_speed.md'


def tables() -> str:
    rows = seconds('steps')
    kinds = list(next(iter(rows.values()))['shares'])
    heading = ['CPU time in %', *(f'{kind}:' for kind in kinds)]
    return table(
        heading,
        [
            [f'`{name}`', *(f'{100 * row["shares"][kind]:.0f}' for kind in kinds)]
            for name, row in rows.items()
        ],
    )
