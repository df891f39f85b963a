"""The commands of the pages run, on small models and data in place of what the pages assume."""

import re
import shlex
import shutil
from collections.abc import Iterator

import pytest

from tests.conftest import output_of, run_python
from tests.docs.test_snippets import PAGES, commands_of
from tests.variants import check_all

# tutorials and trainings have tests of their own; the other pages name what is downloaded
PAGES_ELSEWHERE = (
    'README', 'finetune_detector', 'finetune_segmentor', 'commands', 'papers', 'imagenet', 'zoo',
    'weights', 'trust',
)  # fmt: skip
COMMANDS_ELSEWHERE = ('train', 'distill', 'suite', 'doctor', 'models')
NEEDS = re.compile(r'mine/|half|classifier_|cuda|[.](tflite|mlpackage|pte|param|xml)')
# words of the pages, and what stands for them here
STANDS_FOR = {
    'heads CONFIG CHECKPOINT': 'heads mobile/mmseg.py mobile/epoch_1.pth',  # it has attention
    # the detector finds next to nothing
    'quantize model.onnx': 'quantize --allow-slower segmentor.onnx',
    'errors found.pkl$': 'errors found.pkl --ann shapes/annotations/instances_val2017.json',
    r'configs/\w+[.]py|\bCONFIG\b': 'detector.py', 'CHECKPOINT': 'run/epoch_2.pth',
    r'work_dirs/\w+/epoch_12[.]pth': 'run/epoch_2.pth', r'--checkpoint mobilevitv2-1.0.pt': '',
    r'work_dirs/(bolts|run|A|cells/run)\b|WORK_DIR': 'run', r'\[work_dirs/B ...\]': 'run',
    '(cat|photo)[.]jpg': 'images/a.jpg', 'dog[.]jpg': 'images/b.jpg', 'photos/?|IMAGES': 'images',
    "'more/.*?'": 'shapes/val2017', 'clip[.]mp4': 'video.avi', 'data/coco': 'shapes',
    r'\bDATA\b|data/bolts': 'shapes', r' \[--bundle\]': '', '640 640|320 320': '64 64',
    'query 320 200': 'query 32 20',
}  # fmt: skip


def commands() -> Iterator[str]:
    pages = [page for page in PAGES if page.stem not in PAGES_ELSEWHERE]
    for command in (command for page in pages for command in commands_of(page)):
        if command.split()[0] not in COMMANDS_ELSEWHERE and not NEEDS.search(command):
            for words, replacement in STANDS_FOR.items():
                command = re.sub(words, replacement, command)
            yield ' '.join(command.partition('#')[0].split())


@pytest.mark.slow
@pytest.mark.variant
def test_the_commands_of_pages_run(tmp_path, monkeypatch):
    build = f'from tests.hostile.world import *; build(Path({str(tmp_path)!r}))'
    run_python('-c', build).check_returncode()
    monkeypatch.chdir(tmp_path)
    shutil.copy('model.onnx', 'segmentor.onnx')  # before a detector takes its place
    found = sorted(dict.fromkeys(commands()), key=lambda text: not text.startswith('export'))
    assert len(found) > 30
    check_all(found, lambda command: output_of(*shlex.split(command)))
