"""The C++ compiler of mmcv's build, with the header that every file begins with compiled once.

Each of mmcv's files parses torch's headers, which takes ten times as long as the rest of it. Called
as a compiler is, this compiles the header by the flags of the first file, and has all files start
from the result. Where that does not work, each file parses the headers as without it.
"""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

HEADER = 'pytorch_cpp_helper.hpp'
REAL = 'MMEFFVIT_CXX'  # environment variable with the compiler that does the work
WITH_VALUE = ('-o', '-MF')  # options that are of one file, with their value
OF_ONE_FILE = ('-c', '-MMD', '-MD')


def main() -> None:
    compiler = os.environ[REAL]
    # debug information takes time and half of the memory, and nobody asks for it
    arguments = [a for a in sys.argv[1:] if not re.fullmatch(r'-g\d?|-ggdb\d?', a)]
    arguments = ['-O2' if a == '-O3' else a for a in arguments]
    header = find_header(arguments) if '-c' in arguments else None
    if header is not None and precompile(compiler, arguments, header):
        arguments = ['-include', str(header), *arguments]
    os.execvp(compiler, [compiler, *arguments])


def find_header(arguments: list[str]) -> Path | None:
    folders = [argument[2:] for argument in arguments if argument.startswith('-I')]
    found = (Path(folder, HEADER).resolve() for folder in folders)
    return next((path for path in found if path.is_file()), None)


def precompile(compiler: str, arguments: list[str], header: Path) -> bool:
    """Compile the header unless it is done; whether that worked."""
    done, failed = header.with_name(f'{HEADER}.gch'), header.with_name(f'{HEADER}.failed')
    with header.with_name(f'{HEADER}.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first process compiles, the others wait
        if not done.exists() and not failed.exists():
            target = done.with_suffix('.partial')
            command = [compiler, *shared_flags(arguments), '-x', 'c++-header', str(header)]
            if subprocess.run([*command, '-o', str(target)]).returncode:
                failed.touch()
            else:
                target.replace(done)
        return done.exists()


def shared_flags(arguments: list[str]) -> list[str]:
    """The flags of all files: what is of one file alone is left out."""
    flags, skip = [], False
    for argument in arguments:
        if skip or argument in WITH_VALUE:
            skip = not skip
        elif argument not in OF_ONE_FILE and not argument.endswith(('.cpp', '.cc')):
            flags.append(argument)
    return flags


if __name__ == '__main__':
    main()
