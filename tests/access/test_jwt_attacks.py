"""What a hostile caller may send as a JWT. All of it is refused (docs/operate/security.md, JWTs)."""

from __future__ import annotations

import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from structlog.testing import capture_logs

from taskyard_server.access.authentication import AdminToken, Authentication, Credentials
from taskyard_server.access.jwt import MAX_TOKEN_CHARS, Jwts
from taskyard_server.core.errors import Unauthenticated
from tests.access.issuers import AUDIENCE, NAME, NOW, Issuer, encode, sign
from tests.cases import every_case

HOUR = 3_600


def refused(jwts: Jwts, token: str, match: str | None = None) -> None:
    """A token is taken up, and refused with a text that shows nothing of it."""
    with pytest.raises(Unauthenticated, match=match) as error:
        jwts.find(token)
    assert token not in str(error.value)
    assert "bob" not in str(error.value)


@pytest.fixture
def issuer() -> Issuer:
    return Issuer("RS256")


@pytest.fixture
async def jwts(issuer: Issuer, tmp_path: Path) -> Jwts:
    return await issuer.jwts(tmp_path)


@every_case("name", ["none", "None", "NONE", "nOnE", ""])
def test_a_token_without_signature_is_refused(issuer: Issuer, jwts: Jwts, name: str) -> None:
    for header in ({"alg": name}, {"alg": name, "kid": "k1"}):
        unsigned = f"{encode(header)}.{encode(issuer.claims())}."
        refused(jwts, unsigned)
        refused(jwts, unsigned + encode(b"x"))


def test_a_token_whose_signature_was_cut_off_is_refused(issuer: Issuer, jwts: Jwts) -> None:
    refused(jwts, issuer.token().rpartition(".")[0] + ".", "signature")


@every_case("name", ["HS256", "HS384", "HS512"])
def test_the_public_key_is_no_secret_of_hmac(issuer: Issuer, jwts: Jwts, name: str) -> None:
    public = issuer.key.public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).strip(),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(issuer.jwk()).encode(),
        b"",
    ]
    for secret in secrets:
        signed = f"{encode({'alg': name, 'kid': 'k1'})}.{encode(issuer.claims())}"
        signature = hmac.digest(secret, signed.encode(), name.replace("HS", "sha"))
        refused(jwts, f"{signed}.{encode(signature)}", "names no key")


def test_another_key_is_refused(jwts: Jwts) -> None:
    refused(jwts, Issuer("RS256", number=1).token(), "signature")


@every_case("other", ["RS384", "RS512", "PS256", "PS384", "PS512"])
def test_the_right_key_with_another_algorithm_is_refused(issuer: Issuer, jwts: Jwts, other: str) -> None:
    refused(jwts, sign(issuer.key, {"alg": other, "kid": "k1"}, issuer.claims(), other), "another algorithm")
    refused(jwts, sign(issuer.key, {"alg": "RS256", "kid": "k1"}, issuer.claims(), other), "signature")


@every_case("other", ["ES256", "EdDSA", "ES256K", "RSA-OAEP", "dir", "rs256", "RS256 ", "RS256\0", "x" * 999])
def test_an_algorithm_that_is_not_the_keys_is_refused(issuer: Issuer, jwts: Jwts, other: str) -> None:
    refused(jwts, issuer.token({"alg": other}), "another algorithm")


@every_case("other", [None, 1, True, ["RS256"], {"RS256": 1}, ...])
def test_an_algorithm_that_is_no_text_is_refused(issuer: Issuer, jwts: Jwts, other: Any) -> None:
    refused(jwts, issuer.token({"alg": other}), "header")


@every_case(
    "kid",
    [
        "k2",
        "K1",
        "k1\0",
        "k1 ",
        "",
        "../../../../dev/null",
        "/dev/null",
        "file:///etc/passwd",
        "https://evil.example/jwks.json",
        "k1' or '1'='1",
        "k1 | id",
        "\ud800",
    ],
)
def test_a_kid_is_only_ever_looked_up_in_the_key_set(issuer: Issuer, jwts: Jwts, kid: str) -> None:
    refused(jwts, issuer.token({"kid": kid}), "names no key")


@every_case("kid", [1, True, ["k1"], {"k1": 1}, "k" * 513])
def test_a_kid_that_is_no_short_text_is_refused(issuer: Issuer, jwts: Jwts, kid: Any) -> None:
    refused(jwts, issuer.token({"kid": kid}), "header")


def test_keys_that_a_token_brings_are_not_looked_at(issuer: Issuer, jwts: Jwts) -> None:
    thief = Issuer("RS256", number=1)
    for brought in (
        {"jwk": thief.jwk()},
        {"jku": "https://evil.example/jwks.json"},
        {"x5u": "https://evil.example/cert.pem"},
        {"x5c": ["MIIB"]},
    ):
        refused(jwts, thief.token(brought), "signature")
        refused(jwts, thief.token({**brought, "kid": "thief"}), "names no key")
        refused(jwts, thief.token({**brought, "kid": ...}), "signature")
        assert jwts.find(issuer.token(brought))


@every_case("member", [{"crit": []}, {"crit": ["exp"]}, {"b64": False}, {"b64": True}])
def test_a_header_that_changes_what_is_signed_is_refused(issuer: Issuer, jwts: Jwts, member: dict[str, Any]) -> None:
    refused(jwts, issuer.token(member), "header")


@every_case(
    "audience",
    ["", "other", AUDIENCE.upper(), f"{AUDIENCE} ", AUDIENCE[:-1], [], ["other"], [[AUDIENCE]], None, 1, {}, ...],
)
def test_another_audience_is_refused(issuer: Issuer, jwts: Jwts, audience: Any) -> None:
    refused(jwts, issuer.token(aud=audience), "another audience")


def test_what_was_changed_after_it_was_signed_is_refused(issuer: Issuer, jwts: Jwts) -> None:
    header, claims, signature = issuer.token().split(".")
    refused(jwts, f"{header}.{encode(issuer.claims(sub='ann'))}.{signature}", "signature")
    refused(jwts, f"{encode({'alg': 'RS256', 'kid': 'k1'})}.{claims}.{signature}", "signature")
    refused(jwts, f"{header}.{claims}.{signature[:-8]}AAAAAAAA", "signature")


def test_two_tokens_cannot_be_crossed(issuer: Issuer, jwts: Jwts) -> None:
    mine, theirs = issuer.token(sub="ann"), issuer.token(sub="bob")
    assert jwts.find(mine)
    assert jwts.find(theirs)
    header, _, signature = mine.split(".")
    refused(jwts, f"{header}.{theirs.split('.')[1]}.{signature}", "signature")


@every_case("expires_at", [NOW, NOW - 1, NOW - HOUR, 0, 1])
def test_an_expired_token_is_refused(issuer: Issuer, jwts: Jwts, expires_at: float) -> None:
    refused(jwts, issuer.token(exp=expires_at), "expired")


@every_case("time", [NOW + 31, NOW + HOUR])
@every_case("claim", ["nbf", "iat"])
def test_a_token_of_the_future_is_refused(issuer: Issuer, jwts: Jwts, claim: str, time: float) -> None:
    refused(jwts, issuer.token(**{claim: time}), "not valid yet")


@every_case("time", [None, "", str(NOW + HOUR), True, [NOW + HOUR], {}, -1, -1e999, 1e12, 10**400])
@every_case("claim", ["exp", "nbf", "iat"])
def test_a_time_that_is_none_is_refused(issuer: Issuer, jwts: Jwts, claim: str, time: Any) -> None:
    # Python writes -1e999 as -Infinity, which is no JSON: such a token is no JWT at all.
    if time == -1e999:
        assert jwts.find(issuer.token(**{claim: time})) is None
    else:
        refused(jwts, issuer.token(**{claim: time}), "must be numbers")


@every_case("number", ["1e999", "-1e999", "NaN", "Infinity", "9" * 5_000])
def test_numbers_without_measure_never_make_a_token_that_lasts(issuer: Issuer, jwts: Jwts, number: str) -> None:
    claims = json.dumps(issuer.claims(exp=...))[:-1] + f', "exp": {number}}}'
    token = sign(issuer.key, {"alg": "RS256", "kid": "k1"}, claims, "RS256")
    try:
        assert jwts.find(token) is None
    except Unauthenticated as error:
        assert "must be numbers" in str(error)  # noqa: PT017 - either is fine


def test_a_token_without_end_is_refused(issuer: Issuer, jwts: Jwts) -> None:
    refused(jwts, issuer.token(exp=...), "needs `sub` and `exp`")


@every_case("subject", ["", " ", "\n", None, 1, ["bob"], {"bob": 1}, ...])
def test_a_token_of_nobody_is_refused(issuer: Issuer, jwts: Jwts, subject: Any) -> None:
    refused(jwts, issuer.token(sub=subject), "needs `sub` and `exp`")


@every_case(
    "claims",
    [
        f'{{"iss": "{NAME}", "iss": "https://other.example", "aud": "{AUDIENCE}", "sub": "bob", "exp": 1700000600}}',
        f'{{"iss": "{NAME}", "aud": "{AUDIENCE}", "sub": "bob", "sub": "ann", "exp": 1700000600}}',
        f'{{"iss": "{NAME}", "aud": "{AUDIENCE}", "sub": "bob", "exp": 1, "\\u0065xp": 1700000600}}',
        f'{{"iss": "{NAME}", "aud": "{AUDIENCE}", "sub": "bob", "exp": 1700000600, "x": {{"y": 1, "y": 2}}}}',
    ],
)
def test_a_claim_that_stands_twice_makes_no_jwt(issuer: Issuer, jwts: Jwts, claims: str) -> None:
    assert jwts.find(sign(issuer.key, {"alg": "RS256", "kid": "k1"}, claims, "RS256")) is None


def test_a_member_of_the_header_that_stands_twice_makes_no_jwt(issuer: Issuer, jwts: Jwts) -> None:
    header = '{"alg": "none", "kid": "k1", "alg": "RS256"}'
    assert jwts.find(sign(issuer.key, header, issuer.claims(), "RS256")) is None


@every_case(
    "part",
    [
        b"",
        b"\xff\xfe",
        b"\x00" * 100,
        b"[" * 6_000,
        b'{"iss":' * 1_000,
        b"[" * 2_000 + b"]" * 2_000,
        b"{}{}",
        b"null",
        b"1",
        b'"iss"',
        b'{"iss": "https://issuer.example"',
        b"{'iss': 'https://issuer.example'}",
        b'{"iss": "https://issuer.example",}',
        b"\xef\xbb\xbf{}",
        '{"iss": "https://issuer.example"}'.encode("utf-32"),
    ],
)
def test_garbage_is_no_jwt_and_breaks_nothing(issuer: Issuer, jwts: Jwts, part: bytes) -> None:
    good = encode({"alg": "RS256", "kid": "k1"})
    for token in (f"{good}.{encode(part)}.AAAA", f"{encode(part)}.{encode(issuer.claims())}.AAAA"):
        with pytest.raises(Unauthenticated):
            Authentication([jwts]).principal(Credentials(f"Bearer {token}"))


def test_deep_claims_of_the_issuer_itself_break_nothing(issuer: Issuer, jwts: Jwts) -> None:
    claims = json.dumps(issuer.claims())[:-1] + ', "x": ' + "[" * 1_500 + "]" * 1_500 + "}"
    found = jwts.find(sign(issuer.key, {"alg": "RS256", "kid": "k1"}, claims, "RS256"))
    # How deep is too deep is for Python to say, and each version says something else.
    assert found is None or found == jwts.find(issuer.token())


def test_a_huge_token_is_not_read(issuer: Issuer, jwts: Jwts) -> None:
    token = issuer.token(x="x" * MAX_TOKEN_CHARS)
    assert jwts.find(token) is None
    with pytest.raises(Unauthenticated):
        Authentication([jwts]).principal(Credentials(f"Bearer {token}"))


@every_case("change", ["=", "==", "\n", " ", "+", "/", "!", "\0", "é", "%", "."])
def test_only_the_letters_of_base64url_make_a_jwt(issuer: Issuer, jwts: Jwts, change: str) -> None:
    header, claims, signature = issuer.token().split(".")
    for parts in (
        (header + change, claims, signature),
        (header, claims[:8] + change + claims[8:], signature),
        (header, claims, signature + change),
        (change + header, claims, signature),
    ):
        assert jwts.find(".".join(parts)) is None


def test_a_jwt_that_fails_is_never_passed_on(issuer: Issuer, jwts: Jwts) -> None:
    token = issuer.token(aud="other")
    # Were it passed on, the next source would know it.
    authentication = Authentication([jwts, AdminToken(token)])
    with pytest.raises(Unauthenticated, match="audience"):
        authentication.principal(Credentials(f"Bearer {token}"))


def test_a_token_that_was_refused_stays_refused(issuer: Issuer, jwts: Jwts) -> None:
    token = issuer.token(nbf=NOW + 100)
    for _ in range(2):
        refused(jwts, token, "not valid yet")
    issuer.clock.now += 100
    assert jwts.find(token)


async def test_the_key_of_one_issuer_does_not_sign_for_another(tmp_path: Path) -> None:
    issuer, other = Issuer("ES256"), Issuer("ES256", "https://other.example", number=1)
    (tmp_path / "other").mkdir()
    jwts = await issuer.jwts(tmp_path)
    jwts.reconfigure([issuer.settings(tmp_path), other.settings(tmp_path / "other")])
    await jwts.open()
    assert jwts.find(issuer.token())
    assert jwts.find(other.token())
    refused(jwts, issuer.token(iss=other.name), "signature")
    refused(jwts, other.token(iss=issuer.name), "signature")


async def test_a_broken_signature_of_each_kind_is_refused(tmp_path: Path) -> None:
    for algorithm in ("ES256", "ES384", "ES512", "EdDSA", "PS256"):
        folder = tmp_path / algorithm
        folder.mkdir()
        issuer = Issuer(algorithm)
        jwts = await issuer.jwts(folder)
        signed = issuer.token().rpartition(".")[0]
        # Zeros once passed for ECDSA in Java ("psychic signatures").
        for signature in (
            b"",
            b"\0" * 64,
            b"\0" * 96,
            b"\0" * 132,
            b"\xff" * 64,
            b"\0" * 256,
            b"\x30\x06\x02\x01\0\x02\x01\0",
        ):
            refused(jwts, f"{signed}.{encode(signature)}", "signature")


def test_no_part_of_a_refused_token_is_logged(issuer: Issuer, jwts: Jwts) -> None:
    tokens = [issuer.token(aud="other"), Issuer("RS256", number=1).token(), issuer.token({"kid": "secret-kid"})]
    with capture_logs() as logs:
        for token in tokens:
            refused(jwts, token)
    assert logs == []
