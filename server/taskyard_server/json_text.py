"""JSON in which no name stands twice in an object: readers differ in which of the two counts."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any


def read_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """The value of a text. `parse_constant` is as in `json.loads`. Raises `ValueError` or `RecursionError`."""
    return json.loads(text, object_pairs_hook=_each_once, parse_constant=parse_constant)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"{json.dumps(twice)} stands twice in one object")
    return found
