"""The pinned release of onnxruntime-web: its files, their hashes, and where they come from."""

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from mmeffvit.errors import UserError

PACKAGE, VERSION = 'onnxruntime-web', '1.30.0'
CDN = 'https://cdn.jsdelivr.net'
# the hash of the archive in the npm registry
ARCHIVE = (
    'sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZ'
    'ClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=='
)
FILES = {  # of the archive's folder dist, with their hashes for the browser
    'ort.wasm.bundle.min.mjs': (
        'sha384-PLWz+nHEVHpjwBsO0YVdvQj6n5814Iv8E3b8FG0Rp/uIAtjFMCKOpP66iPzedrIG'
    ),
    'ort-wasm-simd-threaded.wasm': (
        'sha384-vjBJ1z7qrhkTyYsNqKeF6c7N+nOJSU94czEo+tvZcu8G75JparGq9kB+kTnEUNVM'
    ),
    'ort.webgpu.bundle.min.mjs': (
        'sha384-1ntMeyj+z5diX6vBR5h+zlJBPc4iNvhCxE6nlammh8daBYcLBZkzrwDkuJjhwI+f'
    ),
    'ort-wasm-simd-threaded.asyncify.wasm': (
        'sha384-EPVDLTxuO663dkZO/pcKJF6vOyyfq/5z9FY1oksN0UWFX2ABH4wDDZQHeNoUleWR'
    ),
}
BUILDS = {  # the script and the binary of each; a browser loads one of the two
    'webgpu': ('ort.webgpu.bundle.min.mjs', 'ort-wasm-simd-threaded.asyncify.wasm'),
    'wasm': ('ort.wasm.bundle.min.mjs', 'ort-wasm-simd-threaded.wasm'),
}
TIMEOUT = 600  # seconds for npm, which downloads 33 MB


def describe_runtime(bundle: bool) -> dict[str, dict[str, dict[str, str]]]:
    """Address, at the CDN or next to the page, and hash of every build's script and binary."""
    folder = '' if bundle else f'{CDN}/npm/{PACKAGE}@{VERSION}/dist/'
    return {
        build: {
            part: {'address': folder + name, 'integrity': FILES[name]}
            for part, name in zip(('script', 'binary'), names, strict=True)
        }
        for build, names in BUILDS.items()
    }


def fetch_runtime() -> dict[str, bytes]:
    """The files of the release, from the npm registry or npm's cache, by name.

    Raises:
        UserError: If npm is missing or fails, or a hash is not the recorded one.
    """
    npm = shutil.which('npm')
    if npm is None:
        raise UserError(
            '--bundle takes the runtime from the npm registry, and npm is not installed: install '
            'Node.js, or leave --bundle out and the page loads the runtime from a public CDN'
        )
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, 'pack', f'{PACKAGE}@{VERSION}', '--prefer-offline', '--silent']
        try:
            done = subprocess.run(
                [*command, '--pack-destination', folder],
                cwd=folder, capture_output=True, text=True, timeout=TIMEOUT,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise UserError(f'`{" ".join(command)}` took longer than {TIMEOUT} s') from error
        archives = list(Path(folder).glob('*.tgz'))
        if done.returncode or not archives:
            text = ' '.join((done.stderr or done.stdout).split())
            raise UserError(f'`{" ".join(command)}` failed ({text:.200}); without --bundle the '
                            'page loads the runtime from a public CDN')  # fmt: skip
        check_hash(archives[0].name, archives[0].read_bytes(), ARCHIVE)
        with tarfile.open(archives[0]) as archive:
            files = {name: archive.extractfile(f'package/dist/{name}').read() for name in FILES}
    for name, content in files.items():
        check_hash(name, content, FILES[name])
    return files


def check_hash(name: str, content: bytes, expected: str) -> None:
    """Raise UserError if a file has another hash, in the form of npm and of browsers."""
    algorithm = expected.partition('-')[0]
    digest = base64.b64encode(hashlib.new(algorithm, content).digest()).decode()
    if f'{algorithm}-{digest}' != expected:
        raise UserError(
            f'{name} of {PACKAGE} {VERSION} has the hash {algorithm}-{digest}, not {expected}: '
            'the registry or the cache of npm returned another file; nothing was written'
        )
