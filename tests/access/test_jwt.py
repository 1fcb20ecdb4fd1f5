"""Who is known by a JWT, as who, and for how long (docs/operate/security.md, JWTs)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskyard_server.access.grants import Role
from taskyard_server.access.jwt import MAX_REMEMBERED, MOST_REMEMBERED_SECS
from taskyard_server.core.errors import Unauthenticated
from taskyard_server.settings.security import ClaimRule, GrantSettings
from tests.access.issuers import AUDIENCE, NAME, NOW, Issuer, jwk_of, key_set, private_key

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_each_asymmetric_algorithm_is_known(tmp_path: Path, algorithm: str) -> None:
    issuer = Issuer(algorithm)
    principal = (await issuer.jwts(tmp_path)).find(issuer.token())
    assert principal is not None
    assert (principal.name, principal.credential) == ("bob", f"jwt:{NAME}:bob")
    assert principal.expires_at == NOW + 600
    assert [grant.role for grant in principal.grants] == [Role.VIEWER]


async def test_the_audience_may_be_one_of_several(tmp_path: Path) -> None:
    issuer = Issuer()
    assert (await issuer.jwts(tmp_path)).find(issuer.token(aud=["other", AUDIENCE]))


async def test_a_token_without_kid_is_of_the_only_key(tmp_path: Path) -> None:
    issuer = Issuer()
    assert (await issuer.jwts(tmp_path)).find(issuer.token({"kid": ...}))


async def test_a_token_without_kid_is_of_no_key_where_two_would_do(tmp_path: Path) -> None:
    issuer = Issuer()
    (tmp_path / "jwks.json").write_bytes(key_set(issuer.jwk(), jwk_of(private_key("ES256", 1), kid="k2")))
    jwts = await issuer.jwts(tmp_path)
    assert jwts.find(issuer.token())
    with pytest.raises(Unauthenticated, match="names no key"):
        jwts.find(issuer.token({"kid": ...}))


@pytest.mark.parametrize(
    "token",
    [
        "tyd_0123456789",
        "a.b.c",
        "..",
        "a.b",
        "a.b.c.d",
        "é.é.é",
        "e30.e30.e30",
        "bnVsbA.bnVsbA.bnVsbA",
        "W10.W10.W10",
        "",
    ],
)
async def test_what_is_no_jwt_is_left_to_the_next_source(tmp_path: Path, token: str) -> None:
    assert (await Issuer().jwts(tmp_path)).find(token) is None


async def test_a_jwt_of_another_issuer_is_left_to_the_next_source(tmp_path: Path) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    for name in ("https://other.example", f"{NAME}/", NAME.upper(), [NAME], None, ...):
        assert jwts.find(issuer.token(iss=name)) is None


async def test_a_principal_without_a_rule_is_known_and_has_no_grants(tmp_path: Path) -> None:
    issuer = Issuer()
    rule = ClaimRule(claims={"sub": "ann"}, grants=[GrantSettings(role="admin")])
    principal = (await issuer.jwts(tmp_path, [rule])).find(issuer.token())
    assert principal is not None
    assert principal.grants == ()


async def test_the_clock_of_an_issuer_may_be_half_a_minute_ahead(tmp_path: Path) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    assert jwts.find(issuer.token(nbf=NOW + 30, iat=NOW + 30))
    for claim in ("nbf", "iat"):
        with pytest.raises(Unauthenticated, match="not valid yet"):
            jwts.find(issuer.token(**{claim: NOW + 31}))


async def test_a_token_holds_until_its_exp_and_not_a_moment_longer(tmp_path: Path) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    token = issuer.token(exp=NOW + 10)
    assert jwts.find(token)
    issuer.clock.now += 9.9
    assert jwts.find(token)
    issuer.clock.now += 0.1
    with pytest.raises(Unauthenticated, match="expired"):
        jwts.find(token)


async def test_a_token_that_held_is_the_same_principal_for_five_minutes(tmp_path: Path) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    token = issuer.token(exp=NOW + 10_000)
    first = jwts.find(token)
    issuer.clock.now += MOST_REMEMBERED_SECS - 1
    assert jwts.find(token) is first
    issuer.clock.now += 2
    again = jwts.find(token)
    assert again is not first
    assert again == first


async def test_other_rules_hold_at_once(tmp_path: Path) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    token = issuer.token()
    jwts.find(token)
    rule = ClaimRule(claims={"sub": "bob"}, grants=[GrantSettings(role="operator", namespaces=["a*"])])
    jwts.reconfigure([issuer.settings(tmp_path, [rule])])
    principal = jwts.find(token)
    assert principal is not None
    assert [grant.role for grant in principal.grants] == [Role.OPERATOR]
    jwts.reconfigure([])
    assert jwts.find(token) is None


async def test_a_reload_that_changes_nothing_of_issuers_forgets_nothing(tmp_path: Path) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    token = issuer.token()
    first = jwts.find(token)
    jwts.reconfigure([issuer.settings(tmp_path)])
    assert jwts.find(token) is first


async def test_no_more_tokens_are_remembered_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_REMEMBERED == 10_000
    monkeypatch.setattr("taskyard_server.access.jwt.MAX_REMEMBERED", 2)
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    tokens = [issuer.token(sub=name) for name in ("a", "b", "c")]
    first, second = jwts.find(tokens[0]), jwts.find(tokens[1])
    assert jwts.find(tokens[0]) is first
    jwts.find(tokens[2])
    assert jwts.find(tokens[0]) is first
    assert jwts.find(tokens[1]) is not second


async def test_an_issuer_may_stand_once_for_each_audience(tmp_path: Path) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    operators = ClaimRule(claims={}, grants=[GrantSettings(role="operator")])
    jwts.reconfigure([issuer.settings(tmp_path), issuer.settings(tmp_path, [operators], audience="steering")])
    for audience, role in ((AUDIENCE, Role.VIEWER), ("steering", Role.OPERATOR)):
        principal = jwts.find(issuer.token(aud=audience))
        assert principal is not None
        assert [grant.role for grant in principal.grants] == [role]
    with pytest.raises(Unauthenticated, match="another audience"):
        jwts.find(issuer.token(aud="else"))


async def test_names_are_cleaned_and_cut_for_logs_and_stay_distinct(tmp_path: Path) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    subjects = ["a\nb", "a\tb", "a b", "a\u202eb", "a\ud800b", "a\x1b[31mb", "a?b", "x" * 3000, "x" * 3001, "zoë"]
    credentials = set()
    for subject in subjects:
        principal = jwts.find(issuer.token(sub=subject))
        assert principal is not None
        assert principal.name.isprintable()
        assert principal.credential.isprintable()
        assert not any(map(str.isspace, principal.name + principal.credential))
        assert len(principal.name) < 160
        assert len(principal.credential) < 300
        principal.credential.encode()
        credentials.add(principal.credential)
    assert len(credentials) == len(subjects)
    assert f"jwt:{NAME}:zoë" in credentials


async def test_subjects_of_two_issuers_never_have_the_same_credential(tmp_path: Path) -> None:
    issuer, longer = Issuer(), Issuer(name=f"{NAME}:8443")
    jwts = await issuer.jwts(tmp_path)
    jwts.reconfigure([issuer.settings(tmp_path), longer.settings(tmp_path)])
    tokens: list[Any] = [issuer.token(sub="8443:bob"), longer.token(sub="bob")]
    first, second = map(jwts.find, tokens)
    assert first is not None
    assert second is not None
    assert first.credential != second.credential
