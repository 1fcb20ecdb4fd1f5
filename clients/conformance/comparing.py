"""Compares an outcome with its expectation: every expected key must be equal (README.md, Steps)."""

from __future__ import annotations

import json
from typing import Any


def mismatch(line: dict[str, Any], expect: dict[str, Any], outcomes: dict[str, Any]) -> str | None:
    """Describe how a line of a program differs from its expectation, in a text for people. Returns None if it does not.

    References are to `outcomes`, those of the earlier steps.
    """
    if "crashed" in line:
        return f"crashed: {line['crashed']}"
    outcome = line.get("outcome")
    if not isinstance(outcome, dict):
        return f"no outcome: {line}"
    for key, expected in expect.items():
        try:
            expected = resolved(expected, outcomes)
        except (KeyError, IndexError, TypeError):
            return f"{key}: {expected} has no outcome"
        actual = outcome.get(key)
        if key not in outcome or not _matches(actual, expected):
            return f"{key}: expected {expected!r}, found {actual!r} in {outcome}"
    return None


def resolved(value: Any, outcomes: dict[str, Any]) -> Any:
    """Replace the references of a value with the outcomes that they name."""
    if isinstance(value, str) and value.startswith("$"):
        found: Any = outcomes
        for part in value[1:].split("."):
            found = found[int(part)] if isinstance(found, list) else found[part]
        return found
    if isinstance(value, dict):
        return {key: resolved(item, outcomes) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, outcomes) for item in value]
    return value


def _matches(actual: Any, expected: Any) -> bool:
    match expected:
        case {"has": part}:
            return isinstance(actual, str) and part in actual
        case {"json": str(text)}:
            return isinstance(actual, str) and _is_same_json(actual, text)
        case bool():
            # In Python True equals 1, in JSON it does not.
            return actual is expected
    return not isinstance(actual, bool) and bool(actual == expected)


def _is_same_json(actual: str, expected: str) -> bool:
    try:
        return bool(json.loads(actual) == json.loads(expected))
    except ValueError:
        return False
