"""Values by pattern: a name in full, or the beginning of names with a `*` at its end.

Of several patterns that match a name the one with the longest literal part alone counts; a name in full is the longest.
A look-up is a bisection and a walk from a beginning to the next shorter one, so that it costs the same however many
patterns there are that do not match.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

EVERY: Final = "*"
MAX_PATTERN_LENGTH: Final = 1024

Value = TypeVar("Value")


def check_pattern(pattern: str) -> None:
    """Raises `ValueError`, with what is wrong, for what is no pattern."""
    if not pattern.strip():
        raise ValueError("must be a name, or the beginning of names with a * at its end")
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(f"must be at most {MAX_PATTERN_LENGTH} characters")
    if any(ord(each) < 32 or 127 <= ord(each) < 160 for each in pattern):
        raise ValueError("must not hold control characters")
    if EVERY in pattern[:-1]:
        raise ValueError("may hold a * only at its end")


class PatternTable(Generic[Value]):
    """The value of each pattern of a mapping, which is not looked at again."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)
        # The beginnings in alphabetical order, so that a shorter one stands before all that it begins; and for each the
        # index of the longest of the others that begin it, or -1.
        self._beginnings = sorted([pattern[:-1] for pattern in values if pattern.endswith(EVERY)])
        self._shorter: list[int] = []
        for at, beginning in enumerate(self._beginnings):
            before = at - 1
            while before >= 0 and not beginning.startswith(self._beginnings[before]):
                before = self._shorter[before]
            self._shorter.append(before)

    def match(self, name: str) -> tuple[str, Value] | None:
        """The pattern that counts for a name, and its value; None if no pattern matches it."""
        if name in self._values and not name.endswith(EVERY):
            return name, self._values[name]
        at = bisect_right(self._beginnings, name) - 1
        while at >= 0:
            beginning = self._beginnings[at]
            if name.startswith(beginning):
                pattern = beginning + EVERY
                return pattern, self._values[pattern]
            at = self._shorter[at]
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PatternTable) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values)))

    def __len__(self) -> int:
        """The number of patterns."""
        return len(self._values)

    def items(self) -> Iterator[tuple[str, Value]]:
        """Each pattern with its value, by pattern."""
        for pattern in sorted(self._values):
            yield pattern, self._values[pattern]
