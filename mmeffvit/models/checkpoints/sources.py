"""Sources of checkpoints: paths, http(s) URLs and repositories of the Hugging Face hub."""

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import torch

from mmeffvit.errors import CheckpointError
from mmeffvit.utils.files import atomic_output
from mmeffvit.utils.interrupts import is_first_process
from mmeffvit.utils.messages import logger
from mmeffvit.utils.optional import install_command

from .download import FOLDER, download, offline

HUB_FILES = ('model.safetensors', 'pytorch_model.bin')
OURS = 'mmeffvit://'  # prefix of a path or URL, for mmengine's own loaders: with our keys


class Origin(NamedTuple):
    """What is known of the file at an address: its license notice and its digest."""

    notice: str
    sha256: str = ''  # hexadecimal; compared for http(s) addresses


Find = Callable[[str], Origin | None]
_known: list[tuple[Find, Callable[[str], str]]] = []


def register(find: Find, resolve: Callable[[str], str]) -> None:
    """Extend :func:`fetch` by the model zoos that packages above this one know.

    ``find`` returns what is known of an address and is called before each download; ``resolve``
    returns the address or the path behind a name of a model zoo.
    """
    _known[:] = [(find, resolve)]


def fetch(checkpoint: str | os.PathLike) -> Path:
    """Return the local file of ``checkpoint``, downloaded into a cache if necessary.

    The license of a release is printed when its download begins, or after one from the hub.

    Args:
        checkpoint: A path, ``http(s)://...``, or ``hf://OWNER/REPOSITORY[@REVISION][/FILE]``.
            Without FILE the hub's usual names are tried, safetensors first. Downloads go to the
            cache of ``torch.hub`` or huggingface_hub (see ``TORCH_HOME``, ``HF_HOME``,
            ``HF_HUB_OFFLINE``), unless the folder of ``MMEFFVIT_WEIGHTS`` has them, see
            :func:`copy_into`.

    Raises:
        CheckpointError: If there is no such file, or it cannot be downloaded.
    """
    name = os.fspath(checkpoint).removeprefix(OURS)
    for _, resolve in _known if '://' in name else ():
        name = resolve(name)
    if name.startswith('hf://'):
        return _fetch_from_hub(name)
    if name.startswith(('http://', 'https://')):
        return _fetch_from_web(name)
    path = Path(name)
    try:
        path = path.expanduser()
        found = path.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, a null byte
        cause = getattr(error, 'strerror', None) or error
        raise CheckpointError(f'checkpoint {name[:200]!r} cannot be read: {cause}') from error
    if not found:
        raise CheckpointError(
            f'checkpoint {name!r} does not exist (in {os.getcwd()}). Give the path of a '
            'file, an http(s):// address, or hf://OWNER/REPOSITORY.'
        )
    return path


def place_of(address: str) -> Path:
    """The path of a downloaded file."""
    try:
        name = Path(urlsplit(address).path).name
        # releases have files of one name in several folders, such as one per input size
        digest = hashlib.sha256(address.encode()).hexdigest()[:8]
    except ValueError as error:  # an open bracket, a lone surrogate
        raise CheckpointError(f'{address!r} is not a URL: {error}') from error
    if name in ('', '.', '..') or re.search(r'[\s\x00-\x1f]', address):
        raise CheckpointError(f'{address!r} is not the URL of a file')
    return Path(torch.hub.get_dir()) / 'checkpoints' / digest / name


def offline_copy(*places: str) -> Path | None:
    """The first of the files that is in the folder of ``MMEFFVIT_WEIGHTS``."""
    folder = os.environ.get(FOLDER)
    found = (Path(folder, place) for place in places if folder)
    return next((path for path in found if path.is_file()), None)


def copy_into(folder: Path, address: str) -> Path:
    """Download a file and copy it into a folder for ``MMEFFVIT_WEIGHTS`` of another machine."""
    path = fetch(address)
    if address.startswith('hf://'):
        whole = address.removeprefix('hf://')
        place = Path(whole if whole.count('/') > 1 else f'{whole}/{path.name}')
    else:
        place = Path(*place_of(address).parts[-2:])
    target = folder / place
    if not (target.is_file() and target.samefile(path)):
        with atomic_output(target) as copy:
            shutil.copyfile(path, copy)
    return target


def _origin_of(address: str) -> Origin:
    return next(filter(None, (find(address) for find, _ in _known)), Origin(''))


def _announce(origin: Origin) -> None:
    """Print the license notice."""
    if origin.notice and is_first_process():  # one of several processes is enough
        logger.warning(origin.notice)


def _fetch_from_web(address: str) -> Path:
    path = place_of(address)
    if found := offline_copy('/'.join(path.parts[-2:])):
        return found
    if path.is_file():
        return path
    # releases of torch and OpenMMLab end in the first digits of their SHA-256, others in a date
    promised = re.search(r'-(?!\d{8}\.)([0-9a-f]{8})\.', path.name)
    origin = _origin_of(address)
    digest = origin.sha256 or (promised[1] if promised else '')
    download(address, path, digest, partial(_announce, origin))
    return path


def _fetch_from_hub(name: str) -> Path:
    try:
        from huggingface_hub import hf_hub_download, try_to_load_from_cache
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError
        from huggingface_hub.errors import LocalEntryNotFoundError as NotCachedError
        from huggingface_hub.utils import HFValidationError, validate_repo_id
    except ImportError as error:
        raise CheckpointError(
            f'{name} needs huggingface_hub: `{install_command("huggingface_hub")}`'
        ) from error
    match = re.fullmatch(r'hf://([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.+))?', name)
    try:
        repository, revision, file = match.groups() if match else ('', None, None)
        if {'.', '..'} & {*(file or '').split('/'), revision}:
            raise HFValidationError(name)
        validate_repo_id(repository)
    except HFValidationError as error:
        raise CheckpointError(
            f'{name!r} is not a hub address: write hf://OWNER/REPOSITORY[@REVISION][/FILE]'
        ) from error
    files = (file,) if file else HUB_FILES
    whole = name.removeprefix('hf://').removesuffix(f'/{file or ""}')  # OWNER/REPOSITORY[@REVISION]
    if found := offline_copy(*(f'{whole}/{item}' for item in files)):
        return found
    cached = (try_to_load_from_cache(repository, item, revision=revision) for item in files)
    is_cached = any(isinstance(path, str) for path in cached)  # else a marker of absence
    for candidate in files:
        try:
            path = Path(hf_hub_download(repository, candidate, revision=revision))
        except (NotCachedError, EntryNotFoundError) as error:
            cause: Exception = error  # without a network another name may be in the cache
        except (HfHubHTTPError, OSError) as error:
            cause = error
            break
        else:
            if not is_cached:
                _announce(_origin_of(name))
            return path
    why = 'no connection' if isinstance(cause, NotCachedError) else type(cause).__name__
    page = f'https://huggingface.co/{repository}/resolve/{revision or "main"}/{files[0]}'
    otherwise = f'copy your hub cache (HF_HOME) to this machine, or download {page}'
    raise CheckpointError(
        f'cannot get {" or ".join(files)} of {repository} from the Hugging Face hub ({why})'
        f'{offline(name, otherwise)}'
    ) from None  # the frames of the hub's client tell nothing more
