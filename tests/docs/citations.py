"""Finds citations of rules, `docs/FILE.md, Heading`, and the headings that they may name.

A citation stands in any kind of comment and may be broken over two lines. It names one or more headings of a document,
separated by commas. A heading ends where punctuation or the line ends; what follows a comma in lower case is prose.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

HEADING: Final = re.compile(r"#{2,6}[ \t]+(.+?)[ \t]*#*[ \t]*")
FENCE: Final = re.compile(r"[ \t]*(```|~~~)")
LINE_BREAK: Final = re.compile(r"[ \t]*\n[ \t]*(?:(?://+|#+|\*|--)(?=[ \t])[ \t]*)?")
"""The end of a line, with what begins the next line of a comment in Python, protobuf, Go, Java, Lua or SQL."""
CITATION: Final = re.compile(r"\bdocs/((?:[\w-]+/)*[\w-]+\.md),[ \n](?=[A-Z])")
NEXT: Final = re.compile(r",[ \n](?=[A-Z])")
END: Final = r"(?=[).,:;\"'`\\\n]|$)"
UNKNOWN: Final = re.compile(r"[^).,:;\"'`\\\n]*")

OLD_NAME: Final = re.compile(
    r"\bDESIGN\b|\b(?:GATEWAY|FACTS)(?=\.md\b|[,;)])|\bscheduler-(?:architecture|reference|daemon)\b"
    r"|\bruntime-host-model\b|\bqueueing-and-execution\b"
)
"""Documents that were cited before the rules stood in the repository."""


@dataclass(frozen=True)
class Citation:
    """One heading that is cited, at a line from 1. `is_known` tells whether its document has that heading."""

    line: int
    document: str
    heading: str
    is_known: bool = True


def headings_of(markdown: str) -> list[str]:
    """The headings of a document below its title. What stands in a block of code is none."""
    found = []
    is_code = False
    for line in markdown.splitlines():
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code and (match := HEADING.fullmatch(line)):
            found.append(match[1])
    return found


def citations_in(text: str, headings: Mapping[str, Sequence[str]]) -> Iterator[Citation]:
    """Every heading that a text cites. `headings` holds those of each document, by its name below `docs/`."""
    plain = LINE_BREAK.sub("\n", text)
    for match in CITATION.finditer(plain):
        line = plain.count("\n", 0, match.start()) + 1
        document, place = match[1], match.end()
        while True:
            heading = _heading_at(plain, place, headings.get(document, ()))
            if heading is None:
                yield Citation(line, document, UNKNOWN.match(plain, place)[0], is_known=False)  # type: ignore[index]
                break
            yield Citation(line, document, heading)
            following = NEXT.match(plain, place + len(heading))
            if following is None:
                break
            place = following.end()


def old_names_in(text: str) -> Iterator[tuple[int, str]]:
    """Every line, from 1, that names a document which the repository does not hold, with that name."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in OLD_NAME.finditer(line):
            yield number, match[0]


def _heading_at(text: str, place: int, headings: Sequence[str]) -> str | None:
    """The longest of the headings that stands at this place, perhaps on two lines."""
    named = [heading for heading in headings if re.compile(_words(heading) + END).match(text, place)]
    return max(named, key=len, default=None)


def _words(heading: str) -> str:
    return "[ \n]".join(re.escape(word) for word in heading.split())
