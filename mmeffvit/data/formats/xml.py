"""XML with the lines of its elements, and without definitions that could expand."""

from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_file

MAX_DEPTH = 100


def read_xml(path: Path) -> tuple[Element, dict[Element, int]]:
    """The root of a file, and the line of every element.

    Raises:
        UserError: If it is no XML, or has a document type.
    """
    builder, lines = TreeBuilder(), {}
    depth = 0
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError('it is nested too deeply')
        lines[builder.start(tag, attributes)] = parser.CurrentLineNumber

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def doctype(*_: object) -> None:
        raise ValueError('a document type is not read')

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = builder.data, doctype
    try:
        parser.Parse(read_file(path), True)
        return builder.close(), lines
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise UserError(f'{path} cannot be read as XML: {error}') from error
