"""XML with the lines of its elements, and without definitions that could expand."""

from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat


def parse_xml(content: bytes, encoding: str | None = None) -> tuple[Element, dict[Element, int]]:
    """The root of a file, in the declared encoding by default, and the line of every element.

    Raises:
        ValueError: If it is no XML, or has a document type with definitions.
    """
    builder, lines = TreeBuilder(), {}
    parser = expat.ParserCreate(encoding)

    def start(tag: str, attributes: dict[str, str]) -> None:
        lines[builder.start(tag, attributes)] = parser.CurrentLineNumber

    def doctype(name: str, system: str, public: str, has_definitions: bool) -> None:
        if has_definitions:
            raise ValueError('a document type is not read')

    parser.StartElementHandler, parser.EndElementHandler = start, builder.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = builder.data, doctype
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, LookupError) as error:
        raise ValueError(str(error)) from error
    return builder.close(), lines
