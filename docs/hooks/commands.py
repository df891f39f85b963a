"""The reference of commands, from their parsers."""

import re
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterator

from mmeffvit.cli.arguments import CONFIG, MODEL
from mmeffvit.cli.main import COMMANDS, import_command

from .tables import DOCS

PAGE = DOCS / 'commands.md'
# options of several commands, which the page describes once
SHARED = (
    '--help', '--debug', '--cfg-options', '--allow-non-finite', '--verbose', '--seed',
    '--local-rank',
)  # fmt: skip
# texts of arguments that the page describes once
SAID = re.compile(r'a model|a config|checkpoint file or URL \([^)]*\)')


def tables() -> str:
    seen: dict[tuple[str, str], str] = {}
    return ''.join(section(name, seen) for name in COMMANDS) + '\n'


def section(name: str, seen: dict[tuple[str, str], str]) -> str:
    """A command; options that ``seen`` has from an earlier command are only named."""
    parser = import_command(name).make_parser()
    about = ' '.join((parser.description or '').split())
    usage = parser.format_usage().removeprefix('usage: ').strip()
    usage = re.sub(r'^\S+', f'mmeffvit {name}', usage.removesuffix(' [options]'))
    lines, known = [], {}
    for action in own(parser):
        key = action.option_strings[0] if action.option_strings else '', text_of(action, parser)
        if SAID.fullmatch(key[1]):
            continue
        first = seen.setdefault(key, name)
        if key[0] and first != name:
            known.setdefault(first, []).append(f'`{key[0]}`')
        else:
            lines.append(f'- {entry(action)}: {escaped(key[1])}')
    lines += [
        f'- see [{first}](#{first.replace(" ", "-")}): {", ".join(names)}'
        for first, names in known.items()
    ]
    body = '\n'.join(lines)
    text = f'\n## {name}\n\n`{usage}`: {escaped(about)}\n'
    return text + f'\n{body}\n' * bool(body)


def own(parser: ArgumentParser) -> Iterator[Action]:
    """The arguments of a command without those that the page describes once."""
    for action in parser._actions:
        if action.help != SUPPRESS and not set(action.option_strings) & set(SHARED):
            yield action


def entry(action: Action) -> str:
    """``--batch N``, or the name of an argument."""
    choices = '|'.join(map(str, action.choices or ()))
    value = action.metavar or choices or ('N' if action.type is int else action.dest.upper())
    value = value if isinstance(value, str) else ' '.join(value)
    if not action.option_strings:
        return f'`{value if choices or "|" in value or "[" in value else value.upper()}`'
    form = {0: '', '?': f'[{value}]', '+': f'{value} ...', '*': f'{value} ...'}
    names = ', '.join(each for each in action.option_strings if each.startswith('--'))
    return f'`{names} {form.get(action.nargs, value)}'.strip() + '`'


def text_of(action: Action, parser: ArgumentParser) -> str:
    """The help of an argument; what a model or a config may be is at the top of the page."""
    text = parser._get_formatter()._expand_help(action) if action.help else ''
    return text.replace(MODEL, 'a model').replace(CONFIG, 'a config')


def escaped(text: str) -> str:
    """Text without marks of Markdown outside of code."""
    return re.sub(r'`[^`]*`|([*_<])', lambda m: rf'\{m[1]}' if m[1] else m[0], text)
