"""Wrapper of the C++ compiler for mmcv's build that compiles the common header only once.

Each of mmcv's files parses torch's headers, which takes ten times as long as the rest. Called like
a compiler, this script precompiles the header with the flags of the first file, and uses it for all
files. If that fails, each file parses the headers as usual.
"""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

HEADER = 'pytorch_cpp_helper.hpp'
REAL = 'MMEFFVIT_CXX'  # environment variable with the actual compiler
WITH_VALUE = ('-o', '-MF')  # options with a value that differs per file
OF_ONE_FILE = ('-c', '-MMD', '-MD')


def main() -> None:
    compiler = os.environ[REAL]
    # debug information takes time and half of the memory, and is not needed
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
    """Compile the header unless it is compiled, and return whether that worked."""
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
    """The flags that all files share."""
    flags, skip = [], False
    for argument in arguments:
        if skip or argument in WITH_VALUE:
            skip = not skip
        elif argument not in OF_ONE_FILE and not argument.endswith(('.cpp', '.cc')):
            flags.append(argument)
    return flags


if __name__ == '__main__':
    main()
