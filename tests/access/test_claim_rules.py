"""Which claims get which grants (docs/operate/security.md, JWTs)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from taskyard_server.access.claim_rules import ClaimRules
from taskyard_server.access.configured_grants import grants_of
from taskyard_server.access.grants import Grant, Role
from taskyard_server.core.names import names
from taskyard_server.settings.security import ClaimRule, GrantSettings, IssuerSettings
from tests.cases import every_case

VIEWER = GrantSettings(role="viewer")


def is_met(wanted: dict[str, str], claims: dict[str, Any]) -> bool:
    return bool(ClaimRules([ClaimRule(claims=wanted, grants=[VIEWER])]).grants(claims))


def test_grants_are_those_of_the_settings() -> None:
    settings = GrantSettings(
        role="host", namespaces=["a", "b*"], hosts=["h*"], projects=["p"], actions=["x", "y"], agents=["n"]
    )
    assert grants_of([settings, GrantSettings(role="viewer", payloads=True)]) == (
        Grant(
            role=Role.HOST,
            namespaces=names(["a", "b*"]),
            agents=names(["n"]),
            hosts=names(["h*"]),
            projects=names(["p"]),
            actions=names(["x", "y"]),
        ),
        Grant(role=Role.VIEWER, payloads=True),
    )


@every_case(
    ("wanted", "value"),
    [
        ("a", "a"),
        ("a*", "a"),
        ("a*", "abc"),
        ("*", ""),
        ("*", "x"),
        ("a", ["b", "a"]),
        ("a*", ["b", "ab"]),
        ("true", True),
        ("false", False),
        ("42", 42),
        ("1.5", 1.5),
        ("42", [1, 42]),
        ("with a space", "with a space"),
    ],
)
def test_a_value_is_one_that_a_rule_wants(wanted: str, value: Any) -> None:
    assert is_met({"claim": wanted}, {"claim": value})


@every_case(
    ("wanted", "value"),
    [
        ("a", "A"),
        ("a", "ab"),
        ("a", "a "),
        ("a", "xa"),
        ("a*", "b"),
        ("a", ["ab"]),
        ("a", []),
        ("*", []),
        ("a", [["a"]]),
        ("a", {"a": "a"}),
        ("*", {"a": "a"}),
        ("*", None),
        ("null", None),
        ("True", True),
        ("1", True),
        ("true", 1),
        ("42", 43),
        ("a, b", ["a", "b"]),
    ],
)
def test_a_value_is_none_that_a_rule_wants(wanted: str, value: Any) -> None:
    assert not is_met({"claim": wanted}, {"claim": value})


def test_a_claim_that_is_not_there_is_never_one_that_a_rule_wants() -> None:
    assert not is_met({"claim": "*"}, {})


def test_a_rule_needs_all_of_its_claims() -> None:
    wanted = {"team": "a", "level": "2"}
    assert is_met(wanted, {"team": "a", "level": 2})
    assert not is_met(wanted, {"team": "a"})
    assert not is_met(wanted, {"team": "a", "level": 3})


@every_case(
    ("name", "claims"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["x"]}}),
        ("a.b.c", {"a": {"b": {"c": "x"}}}),
        ("a.b", {"a.b": "x"}),
        ("a.b", {"a.b": "x", "a": {"b": "y"}}),
        ("kubernetes.io.namespace", {"kubernetes.io": {"namespace": "x"}}),
        ("kubernetes.io.pod.name", {"kubernetes": {"io": "y"}, "kubernetes.io": {"pod": {"name": "x"}}}),
        ("https://app.example/roles", {"https://app.example/roles": ["x"]}),
    ],
)
def test_a_dotted_name_leads_into_a_claim(name: str, claims: dict[str, Any]) -> None:
    assert is_met({name: "x"}, claims)


@every_case("claims", [{"a": "x"}, {"a": ["b"]}, {"a": {"c": "x"}}, {"a": {"b": {"x": 1}}}, {"b": "x"}, {"a": None}])
def test_a_dotted_name_that_leads_nowhere_is_not_there(claims: dict[str, Any]) -> None:
    assert not is_met({"a.b": "x"}, claims)


def test_a_token_gets_the_grants_of_all_rules_that_it_meets_each_once() -> None:
    agent = GrantSettings(role="agent", agents=["a"])
    rules = ClaimRules(
        [
            ClaimRule(claims={"groups": "one"}, grants=[VIEWER, agent]),
            ClaimRule(claims={"groups": "two"}, grants=[VIEWER]),
            ClaimRule(claims={"groups": "three"}, grants=[GrantSettings(role="admin")]),
        ]
    )
    assert rules.grants({"groups": ["one", "two"]}) == grants_of([VIEWER, agent])
    assert rules.grants({"groups": []}) == ()


@pytest.mark.parametrize("value", ["a*b", "**", "*a"])
def test_a_star_stands_at_the_end_only(value: str) -> None:
    with pytest.raises(ValidationError):
        ClaimRule(claims={"claim": value}, grants=[VIEWER])


@every_case(
    "place",
    [
        "http://issuer.example/jwks",
        "http://127.0.0.1.evil.example/jwks",
        "http://localhost.evil.example/",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "https://",
        "https://user:secret@issuer.example/jwks",
        "://",
        "",
    ],
)
def test_keys_come_from_a_file_or_by_https_or_from_this_machine(place: str) -> None:
    with pytest.raises(ValidationError):
        IssuerSettings(issuer="i", audience="a", jwks=place)


@every_case(
    "place",
    ["https://issuer.example/jwks", "http://127.0.0.1:80/jwks", "http://[::1]/x", "http://localhost:1/", "/a/jwks"],
)
def test_the_place_of_keys_stays_as_it_was_written(place: str) -> None:
    assert IssuerSettings(issuer="i", audience="a", jwks=place).jwks == place
