"""Checks answers by the JSON Schemas of questions, which are bounded so that no check holds the server up.

A check takes as long as a schema has parts, those that it refers to again each time, times the values of the answer.
So schemas in circles, and those that say much with few words, are refused when they are asked (docs/rules.md,
Questions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from taskyard_server.core.errors import BadRequest, TooLarge

if TYPE_CHECKING:
    import jsonschema_rs

MAX_PARTS: Final = 5_000
"""Of a schema: its values, those that a reference leads to each time; so are its patterns."""
MAX_PATTERNS: Final = 20
"""Of a schema, with those that it refers to."""
MAX_PATTERN_BYTES: Final = 200_000
"""Of a pattern, as it is compiled."""
MAX_CHECKS: Final = 4_000_000
"""Of an answer: the parts of its schema times its values."""
MAX_PATTERN_CHARS: Final = 100_000
"""Of an answer: the patterns of its schema times its characters."""
REFUSED: Final = ("$anchor", "$dynamicAnchor", "$dynamicRef", "unevaluatedItems", "unevaluatedProperties")
"""Words that lead in circles, or make parts of an answer be looked at again. No property can have these names."""

UNUSABLE: Final = "is no JSON Schema that can be used"


class _Cost(NamedTuple):
    parts: int
    patterns: int


class AnswerSchema:
    """The schema of a question, which stands in `field`. Raises `BadRequest` for one that costs much.

    It is compiled when it is first used, since its patterns take long.
    """

    def __init__(self, schema: dict[str, Any], field: str) -> None:
        self._schema = schema
        self._field = field
        self._known: dict[str, _Cost | None] = {}
        self._validator: jsonschema_rs.Draft202012Validator | None = None
        try:
            self._cost = self._cost_of({key: part for key, part in schema.items() if key != "$id"})
        except RecursionError:
            raise BadRequest(f"{field}: its references are too deep") from None
        if self._cost.parts > MAX_PARTS:
            raise BadRequest(f"{field}: has more than {MAX_PARTS} parts, with those that it refers to")
        if self._cost.patterns > MAX_PATTERNS:
            raise BadRequest(f"{field}: has more than {MAX_PATTERNS} patterns, with those that it refers to")

    @property
    def patterns(self) -> int:
        """How many patterns it has, with those that it refers to."""
        return self._cost.patterns

    def compile(self) -> jsonschema_rs.Draft202012Validator:
        """Compile it, once. Raises `BadRequest` for what is no schema."""
        if self._validator is None:
            self._validator = _validator(self._schema, self._field)
        return self._validator

    def check(self, answer: Any, field: str) -> None:
        """Raise `BadRequest` for an answer that the schema does not allow, `TooLarge` for one too large to look."""
        import jsonschema_rs

        values, chars = _size_of(answer)
        if values * self._cost.parts > MAX_CHECKS or chars * self._cost.patterns > MAX_PATTERN_CHARS:
            raise TooLarge(f"{field}: is too large to be checked by the schema of its question")
        validator = self.compile()
        try:
            # Of all errors, which may be very many, the first one is enough.
            validator.validate(answer)
        except jsonschema_rs.ValidationError as error:
            place = "".join([f".{each}" if isinstance(each, str) else f"[{each}]" for each in error.instance_path])
            raise BadRequest(f"{field}{place}: {error.message[:1_000]}") from None

    def _cost_of(self, part: Any) -> _Cost:
        parts, patterns = 1, 0
        for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
            if key in REFUSED or (key == "$id" and isinstance(value, str)):
                raise BadRequest(f"{self._field}: must not use {key}")
            cost = self._cost_behind(value) if key == "$ref" and isinstance(value, str) else self._cost_of(value)
            parts += cost.parts
            patterns += cost.patterns + (key == "pattern")
            if key == "patternProperties" and isinstance(value, dict):
                patterns += len(value)
        return _Cost(parts, patterns)

    def _cost_behind(self, reference: str) -> _Cost:
        known = self._known
        if reference not in known:
            known[reference] = None
            known[reference] = self._cost_of(self._at(reference))
        cost = known[reference]
        if cost is None:
            raise BadRequest(f"{self._field}: {reference[:100]} refers to itself")
        return cost

    def _at(self, reference: str) -> Any:
        place: Any = self._schema
        begin, *steps = reference.split("/")
        try:
            if begin != "#":
                raise KeyError(reference)
            for step in steps:
                key = unquote(step).replace("~1", "/").replace("~0", "~")
                place = place[int(key)] if isinstance(place, list) else place[key]
        except (KeyError, IndexError, TypeError, ValueError):
            raise BadRequest(f"{self._field}: {UNUSABLE}: {reference[:100]} refers to nothing in it") from None
        return place


def _validator(schema: dict[str, Any], field: str) -> jsonschema_rs.Draft202012Validator:
    # Most servers are asked no question with a schema: it is not loaded with them.
    import jsonschema_rs

    # Patterns are matched in linear time, so that none of them holds the server up.
    linear = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES)
    try:
        return jsonschema_rs.Draft202012Validator(schema, offline=True, pattern_options=linear)
    # Of what its library says, the first line names the fault.
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise BadRequest(f"{field}: {UNUSABLE}: {str(error).splitlines()[0][:1_000]}") from None


def _size_of(answer: Any) -> tuple[int, int]:
    """How many values an answer has, and how many characters its strings and names."""
    if isinstance(answer, str):
        return 1, len(answer)
    if isinstance(answer, dict):
        sizes = [_size_of(each) for each in answer.values()] + [(1, len(name)) for name in answer]
    elif isinstance(answer, list):
        sizes = [_size_of(each) for each in answer]
    else:
        sizes = []
    return 1 + sum([values for values, _ in sizes]), sum([chars for _, chars in sizes])
