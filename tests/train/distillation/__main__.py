"""Write the table of ``docs/distillation.md``: ``python -m tests.train.distillation``."""

from pathlib import Path
from tempfile import TemporaryDirectory

from mmengine.logging import MMLogger

from mmeffvit.data.shapes import ShapesSpec, generate
from tests.train.distillation.recovery import FORMS, recover

STEPS = 300

if __name__ == '__main__':
    MMLogger.get_current_instance().setLevel('WARNING')
    with TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder / 'shapes', ShapesSpec(num_train=64, num_val=16, side=64, max_objects=3))
        for family in FORMS:
            for start, found in recover(family, folder / 'shapes', folder, STEPS).items():
                cells = [family, start]
                for state in (found.before, found.after):
                    cells += [f'{state.relative_error:.3f}', f'{state.cosine:.3f}']
                print(f'| {" | ".join(cells)} |', flush=True)
