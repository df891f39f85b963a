"""Pictures that only some programs rotate are rejected by the page as they are in Python."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmeffvit.deploy import web

SOURCES = Path(web.__file__).with_name('static') / 'sources.js'
SCRIPT = """
import {readFileSync} from 'node:fs';
import {orientationOf} from './sources.mjs';
const found = [];
for (const name of process.argv.slice(2)) {
  found.push(await orientationOf(new Blob([readFileSync(name)])));
}
console.log(JSON.stringify(found));
"""


def test_the_page_reads_the_exif_orientation_of_every_format(tmp_path):
    node = shutil.which('node')
    if node is None:
        pytest.skip('node is not installed')
    shutil.copy(SOURCES, tmp_path / 'sources.mjs')
    (tmp_path / 'run.mjs').write_text(SCRIPT)
    image = Image.fromarray(np.zeros((30, 40, 3), np.uint8))
    names, expected = [], []
    for kind in ('webp', 'png', 'jpg'):
        for orientation in (None, 1, 3, 6):
            exif = Image.Exif()
            if orientation:
                exif[0x0112] = orientation
            names.append(f'{orientation}.{kind}')
            image.save(tmp_path / names[-1], exif=exif)
            expected.append(1 if kind == 'jpg' else orientation or 1)
    for kind in ('webp', 'png'):
        names.append(f'cut.{kind}')
        content = (tmp_path / f'6.{kind}').read_bytes()
        (tmp_path / names[-1]).write_bytes(content[:40])  # in or before its EXIF
        expected.append(1)
    done = subprocess.run(
        [node, 'run.mjs', *names], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == expected, dict(zip(names, expected, strict=True))
