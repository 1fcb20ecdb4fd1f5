"""Label selectors: what the labels of a task must be, as text and as a value (docs/rules.md, Label selectors).

The language is that of Kubernetes: `site=shop,env!=dev,team in (a,b),team notin (c),key,!key`. Since labels may hold
any character here, a key or value may stand in double quotes, where a backslash takes the next character as it is.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from taskyard_server.core.errors import BadRequest

MAX_SELECTOR_CHARS: Final = 4_096
MAX_SHOWN_CHARS: Final = 32
TOKENS: Final = re.compile(r'\s*(?:(==|!=|[=!,()])|("(?:[^"\\]|\\.)*")|([^\s=!,()<>"]+)|(.))', re.DOTALL)
"""A sign, a quoted word, a plain word, or what is none of them."""
ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
END: Final = "the end"

Labels = tuple[tuple[str, str], ...]


class Relation(StrEnum):
    """The test of a requirement on the value of its key. `NOT_IN` and `ABSENT` hold for labels without the key."""

    IN = "in"
    NOT_IN = "notin"
    PRESENT = "exists"
    ABSENT = "!"


IN: Final = Relation.IN
NOT_IN: Final = Relation.NOT_IN
PRESENT: Final = Relation.PRESENT
ABSENT: Final = Relation.ABSENT


class Requirement(NamedTuple):
    """A requirement on the label with one key. `values` are for `IN` and `NOT_IN`, sorted, each once."""

    key: str
    relation: Relation
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """True if it holds for the value that a task has under this key; None if it has none."""
        relation = self.relation
        if relation is IN:
            return value is not None and value in self.values
        if relation is NOT_IN:
            return value is None or value not in self.values
        return (value is None) == (relation is ABSENT)


class Selector(NamedTuple):
    """Requirements, all of which must hold."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Labels) -> bool:
        """True if labels, each key once, are as required."""
        found = dict(labels)
        return all(requirement.holds(found.get(requirement.key)) for requirement in self.requirements)


class SelectorToken(NamedTuple):
    """A part of the text: a `sign` or else a `word`; neither at its end. `at` is its column, from 1."""

    sign: str
    word: str | None
    at: int
    is_quoted: bool = False

    @property
    def shown(self) -> str:
        """Its name in refusals."""
        text = self.sign if self.word is None else self.word
        return f'"{text[:MAX_SHOWN_CHARS]}" at character {self.at}' if text or self.is_quoted else END


def parse_selector(text: str, field: str = "labels") -> Selector | None:
    """The selector that a text is; None if it is blank, which selects all. Raises `BadRequest`, which names `field`."""
    if len(text) > MAX_SELECTOR_CHARS:
        raise BadRequest(f"{field}: must be at most {MAX_SELECTOR_CHARS} characters")
    if not text or text.isspace():
        return None
    parser = Parser(_tokens(text, field), field)
    requirements = [parser.requirement()]
    while parser.took(","):
        requirements.append(parser.requirement())
    parser.expect_end()
    return Selector(tuple(requirements))


class Parser:
    """Reads requirements from tokens, the last of which is the end."""

    def __init__(self, tokens: list[SelectorToken], field: str) -> None:
        self._tokens = tokens
        self._field = field
        self._index = 0

    def took(self, *signs: str) -> bool:
        """True if one of these signs was next; it is behind us then."""
        found = self._tokens[self._index].sign in signs
        self._index += found
        return found

    def requirement(self) -> Requirement:
        """The requirement that begins here."""
        if self.took("!"):
            return Requirement(self._key(), ABSENT)
        key = self._key()
        if self.took("=", "=="):
            return Requirement(key, IN, (self._value(),))
        if self.took("!="):
            return Requirement(key, NOT_IN, (self._value(),))
        token = self._tokens[self._index]
        if token.word is not None and not token.is_quoted and token.word in ("in", "notin"):
            self._index += 1
            return Requirement(key, IN if token.word == "in" else NOT_IN, self._values(token.word))
        if token.word is not None:
            raise self._refusal('one of = != in notin, "," or the end')
        return Requirement(key, PRESENT)

    def expect_end(self) -> None:
        """Raise `BadRequest` if anything is left."""
        token = self._tokens[self._index]
        if token.sign or token.word is not None:
            raise self._refusal('"," or the end')

    def _key(self) -> str:
        word = self._tokens[self._index].word
        if not word:
            raise self._refusal("a key")
        self._index += 1
        return word

    def _value(self) -> str:
        """The value here; empty where none stands."""
        word = self._tokens[self._index].word
        if word is None:
            return ""
        self._index += 1
        return word

    def _values(self, relation: str) -> tuple[str, ...]:
        if not self.took("("):
            raise self._refusal(f'"(" after {relation}')
        if self._tokens[self._index].sign == ")":
            raise self._refusal(f"a value of {relation}")
        values = [self._value()]
        while self.took(","):
            values.append(self._value())
        if not self.took(")"):
            raise self._refusal('"," or ")"')
        return tuple(sorted(set(values)))

    def _refusal(self, expected: str) -> BadRequest:
        return BadRequest(f"{self._field}: expected {expected}, found {self._tokens[self._index].shown}")


def _tokens(text: str, field: str) -> list[SelectorToken]:
    tokens: list[SelectorToken] = []
    text = text.rstrip()
    for match in TOKENS.finditer(text):
        sign, quoted, word, other = match.groups()
        at = match.end() - len(match.group().lstrip()) + 1
        if other is not None:
            fault = "has no end" if other == '"' else "must stand in double quotes"
            raise BadRequest(f"{field}: {other} at character {at} {fault}")
        if quoted is not None:
            tokens.append(SelectorToken("", ESCAPED.sub(r"\1", quoted[1:-1]), at, is_quoted=True))
        elif word is not None:
            tokens.append(SelectorToken("", word, at))
        else:
            tokens.append(SelectorToken(sign, None, at))
    tokens.append(SelectorToken("", None, len(text) + 1))
    return tokens
