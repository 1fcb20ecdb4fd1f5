"""Which claims of a verified JWT get which grants (docs/operate/security.md, JWTs)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from taskyard_server.core.names import Names, names
from taskyard_server.settings.security import ClaimRule

from .configured_grants import grants_of
from .grants import Grant


class _Rule(NamedTuple):
    claims: Sequence[tuple[str, Names]]
    grants: tuple[Grant, ...]


class ClaimRules:
    """The rules of one issuer. A token gets the grants of all that it meets."""

    def __init__(self, rules: Iterable[ClaimRule]) -> None:
        self._rules = [
            _Rule([(name, names([value])) for name, value in rule.claims.items()], grants_of(rule.grants))
            for rule in rules
        ]

    def grants(self, claims: Mapping[str, Any]) -> tuple[Grant, ...]:
        """The grants of a token with these claims, each once; none if no rule is met."""
        met = (
            rule for rule in self._rules if all(_holds(claim_of(claims, name), wanted) for name, wanted in rule.claims)
        )
        return tuple(dict.fromkeys(grant for rule in met for grant in rule.grants))


def claim_of(claims: Mapping[str, Any], name: str) -> Any:
    """The value of a claim, None without it. `a.b` is the claim of this name, or `b` within `a`.

    Names hold dots themselves (`kubernetes.io`), so every dot may be the one that leads inside.
    """
    if name in claims:
        return claims[name]
    at = name.find(".")
    while at >= 0:
        inner = claims.get(name[:at])
        if isinstance(inner, dict) and (value := claim_of(inner, name[at + 1 :])) is not None:
            return value
        at = name.find(".", at + 1)
    return None


def _holds(value: Any, wanted: Names) -> bool:
    """True if a claim has a wanted value; of a list, one entry must have it."""
    if isinstance(value, list):
        return any(_is_one(entry, wanted) for entry in value)
    return _is_one(value, wanted)


def _is_one(value: Any, wanted: Names) -> bool:
    if isinstance(value, str):
        return value in wanted
    return isinstance(value, bool | int | float) and json.dumps(value) in wanted
