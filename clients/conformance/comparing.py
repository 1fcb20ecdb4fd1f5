"""Whether an outcome is as expected: every expected key must be equal (README, Steps)."""

from __future__ import annotations

from typing import Any


def mismatch(said: dict[str, Any], expect: dict[str, Any], outcomes: dict[str, Any]) -> str | None:
    """What is wrong with a line of a program, for people, or None. References go to earlier `outcomes`."""
    if "crashed" in said:
        return f"crashed: {said['crashed']}"
    outcome = said.get("outcome")
    if not isinstance(outcome, dict):
        return f"no outcome: {said}"
    for key, wanted in expect.items():
        try:
            wanted = resolved(wanted, outcomes)
        except (KeyError, IndexError, TypeError):
            return f"{key}: {wanted} has no outcome"
        found = outcome.get(key)
        if key not in outcome or not _fits(found, wanted):
            return f"{key}: expected {wanted!r}, found {found!r} in {outcome}"
    return None


def resolved(value: Any, outcomes: dict[str, Any]) -> Any:
    """The value with its references to outcomes replaced."""
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


def _fits(found: Any, wanted: Any) -> bool:
    match wanted:
        case {"has": part}:
            return isinstance(found, str) and part in found
        case bool():
            # In Python True equals 1, in JSON it does not.
            return found is wanted
    return not isinstance(found, bool) and bool(found == wanted)
