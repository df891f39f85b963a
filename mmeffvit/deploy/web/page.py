"""Write a static page that runs an exported model in the browser."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from mmeffvit.deploy.runtime.predictor import ExportedPredictor
from mmeffvit.errors import UserError
from mmeffvit.utils.files import (
    LEFT_OVER,
    check_output,
    partial_folder,
    publish,
    read_json,
    write_file,
)
from mmeffvit.utils.interrupts import deferred
from mmeffvit.utils.text import listed

from .runtime import CDN, FILES, VERSION, describe_runtime, fetch_runtime

STATIC = Path(__file__).with_name('static')
MODEL = 'model.onnx'
PAGE = 'page.json'  # settings of the model for the scripts, and the files of the page
MAX_SIDE = 4096  # pixels: canvases of phones end at 4096 x 4096
MAX_SIZE = 2**30  # bytes: WebAssembly has 4 GiB for the file, the weights and the maps
RESAMPLING = (  # as in static/resizing.js
    ('cv2', 'bilinear'), ('pillow', 'bilinear'), ('pillow', 'bicubic'), ('pillow', 'lanczos'),
)  # fmt: skip


def write_page(model: str | os.PathLike, out: str | os.PathLike, *, bundle: bool = False) -> str:
    """Write a folder with a page that runs a model: scripts, model and runtime; returns a report.

    Args:
        model: An ONNX file of ``mmeffvit export``.
        out: The folder; an earlier page in it is replaced.
        bundle: Copy the runtime from the npm registry into the folder; by default the page loads it
            from a public CDN, and checks its hash.

    Raises:
        UserError: If the file was not written by ``mmeffvit export`` or cannot run in a browser,
            the folder contains anything else, or the runtime cannot be fetched.
    """
    model, out = Path(model), check_output(out, folder=True).resolve()
    check_folder(out)
    page = describe_page(model)
    files = {path.name: path.read_bytes() for path in sorted(STATIC.iterdir())}
    files[MODEL] = model.read_bytes()
    if bundle:
        files |= fetch_runtime()
        files['index.html'] = files['index.html'].replace(f' {CDN}'.encode(), b'')
    page |= dict(runtime=describe_runtime(bundle), files=sorted([*files, PAGE]))
    files[PAGE] = json.dumps(page, indent=1).encode()
    write_folder(out, files)
    size = sum(map(len, files.values())) / 2**20
    where = 'in it' if bundle else f'from {CDN}'
    return (
        f'{out}: {len(files)} files, {size:.1f} MiB; ONNX Runtime Web {VERSION} {where}\n'
        f'python -m http.server -d {shlex.quote(str(out))}    then open http://localhost:8000'
    )


def describe_page(path: Path) -> dict[str, Any]:
    """The settings of a model for the scripts; UserError if it cannot run in a browser."""
    if path.suffix != '.onnx':
        raise UserError(f'{path} has the suffix {path.suffix!r}; a browser runs .onnx files')
    predictor = ExportedPredictor(path)
    settings = dict(predictor.metadata.resize)
    if predictor.is_classifier:
        raise UserError(f'{path.name} is a classifier, and a page shows objects and label maps: '
                        '`mmeffvit predict` shows classes')  # fmt: skip
    batch, fixed = predictor.session.shape[0], predictor.fixed
    if settings['crop'] or settings['short_side'] or settings['decoder'] != 'cv2':
        raise UserError(f'{path} crops images or reads them with Pillow, as files of classifiers '
                        'do; a page does neither')  # fmt: skip
    if path.stat().st_size > MAX_SIZE:
        raise UserError(f'{path} has {path.stat().st_size / 2**30:.1f} GiB; a browser runs files '
                        f'of up to {MAX_SIZE // 2**30} GiB')  # fmt: skip
    if isinstance(batch, int) and batch != 1:
        raise UserError(f'{path} takes batches of {batch} images, and a page shows one: export it '
                        'with --batch 1 or without --batch')  # fmt: skip
    largest = max([*(fixed or ()), *(settings['scale'] or ()), *(settings['pad'] or ())], default=0)
    if largest > MAX_SIDE:
        raise UserError(f'{path} takes images with {largest:,} pixels per side; a browser runs '
                        f'up to {MAX_SIDE:,}: export it with a smaller --shape')  # fmt: skip
    method = (settings['backend'], settings['interpolation'])
    if method not in RESAMPLING:
        choices = ', '.join(map(' '.join, RESAMPLING))
        raise UserError(f'{path} resizes images with {" ".join(method)}; a page resizes with one '
                        f'of {choices}')  # fmt: skip
    settings['pad_value'] = rgb(settings['pad_value'])
    return dict(
        name=path.name,
        model=MODEL,
        task=predictor.metadata.task,
        classes=predictor.classes,
        palette=predictor.palette.tolist(),
        resize=settings,
        fixed=fixed,
        fill=rgb(predictor.metadata.fill),
        mask_threshold=predictor.metadata.mask_threshold,
        version=VERSION,
    )


def rgb(value: Any) -> list[float]:
    """The color of the padding for an RGB image, from that for a BGR one."""
    return np.broadcast_to(value, 3)[::-1].clip(0, 255).tolist()


def check_folder(out: Path) -> None:
    """Raise UserError if a folder contains anything but an earlier page."""
    found = {path.name for path in out.iterdir()} if out.is_dir() else set()
    others = {name for name in found - page_files(out) if not LEFT_OVER.fullmatch(name)}
    if others:
        raise UserError(
            f'output {str(out)!r} contains files that are not part of a page '
            f'({listed(sorted(others), 3)}): choose another folder; nothing was changed'
        )


def page_files(folder: Path) -> set[str]:
    """The names of the files of an earlier page."""
    ours = {path.name for path in STATIC.iterdir()} | {MODEL, PAGE} | set(FILES)
    try:
        names = read_json(folder / PAGE)['files']
        return {name for name in ours.intersection(names) if (folder / name).is_file()}
    except (UserError, TypeError, KeyError):
        return set()


def write_folder(out: Path, files: dict[str, bytes]) -> None:
    """Write the files of a page into a folder, which stays, in place of an earlier page."""
    with partial_folder(out / PAGE) as work:
        for name, content in files.items():
            (work / name).write_bytes(content)
        check_folder(out)  # it may have changed since
        earlier = page_files(out) - set(files)
        with deferred():
            # if this process is killed now, no page mixes two models, and the next one replaces it
            write_file(out / PAGE, json.dumps(dict(files=sorted({*earlier, *files}))))
            for name in earlier:
                (out / name).unlink()
            publish(work, out / PAGE)
