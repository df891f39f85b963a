"""The files to measure for a model that is an exported file."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mmeffvit.deploy.compare import (
    FLOAT,
    Expect,
    Images,
    Outputs,
    batch,
    check_agreement,
    compare,
    singles,
)
from mmeffvit.deploy.export import ToolOptions
from mmeffvit.deploy.formats import noise_image
from mmeffvit.deploy.int8.quantize import NOTE
from mmeffvit.deploy.predictor.resizing import fixed_size, reader_of
from mmeffvit.deploy.predictor.sessions import RUNTIMES, Session, open_model
from mmeffvit.deploy.runtimes.openvino import to_openvino
from mmeffvit.errors import UserError

from .candidates import Absent, Candidate, Entry, attempt, described, half_file, missing

OTHERS = 'an exported file is not converted for it: give the config and the checkpoint'


def check_exported(path: Path, options: ToolOptions) -> tuple[Images, bool]:
    """Images for a file, and whether it is quantized already.

    Raises:
        UserError: If it cannot be read or run, or has no fixed size and none is given.
    """
    if path.suffix not in RUNTIMES:
        raise UserError(f'{path} ends in {path.suffix!r}; choose from {", ".join(RUNTIMES)}')
    session = open_model(path)
    images = images_for(session, options)
    session.run(images)
    return images, NOTE in session.metadata


def images_for(session: Session, options: ToolOptions) -> Images:
    """One batch of the image to compare on, or of noise."""
    count, fixed = session.shape[0], fixed_size(session.shape)
    if options.shape and fixed and options.shape != fixed:
        raise UserError(f'--shape is {options.shape}, but the file takes images of {fixed}')
    shape = options.shape or fixed
    if shape is None:
        raise UserError('the size of the images is not in the file; give --shape HEIGHT WIDTH')
    if options.image is None:
        image = noise_image(shape)
    else:
        read = reader_of((1, 3, *shape), session.metadata)
        image = read(options.image)[0].transpose(1, 2, 0)
    return batch(image, shape, count if isinstance(count, int) else 1)


def exported_files(
    path: Path, images: Images, is_int8: bool, folder: Path, suffix: str
) -> Iterator[Entry]:
    """The file itself, or the OpenVINO files of a float ``.onnx``."""
    runtime, _ = RUNTIMES[suffix]
    if suffix == path.suffix:
        yield Candidate(runtime, 'int8' if is_int8 else 'float32', path, {}, 'the file itself')
    elif suffix == '.xml' and path.suffix == '.onnx' and not is_int8:
        for precision in ('float32', 'float16'):
            make = partial(openvino_file, path, images, folder, precision)
            yield missing(('openvino',), suffix, precision) or attempt(runtime, precision, make)
    else:
        yield Absent(runtime, 'float32', 'not measured', OTHERS)


def openvino_file(path: Path, images: Images, folder: Path, precision: str, runtime: str) -> Entry:
    out = folder / f'xml_{precision}' / 'model.xml'
    out.parent.mkdir(parents=True)
    to_openvino(path, out, half=precision == 'float16')
    expect = expect_file(path)
    if precision == 'float16':
        return half_file(runtime, out, expect, [images], lambda found: found)
    errors = compare(open_model(out).run, expect, [images], FLOAT)
    check_agreement(errors, 'the same images')
    return Candidate(runtime, precision, out, *described(errors))


def expect_file(path: Path) -> Expect:
    """A function that returns the outputs of a file on the CPU."""
    session = open_model(path)

    def expect(images: Images) -> list[Outputs]:
        found = session.run(images)
        found.pop('masks', None)  # those of a file are not pasted into the image
        return singles(found)

    return expect
