"""Where the keys of issuers come from, which are used, and what happens when they change.

See docs/operate/security.md, JWTs.
"""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from structlog.testing import capture_logs

from taskyard_server.access import key_sources
from taskyard_server.access.jwt import Jwts
from taskyard_server.access.key_sets import MAX_BYTES, MAX_KEYS, KeySetError, read_key_set
from taskyard_server.access.key_sources import FILE_SECS, URL_LEAST_SECS, URL_SECS, KeyFile, KeyUrl
from taskyard_server.core.errors import Unauthenticated
from tests.access.issuers import Issuer, encode, jwk_of, key_set, private_key
from tests.cases import every_case


class Site:
    """A web server on loopback that answers with what it is told to, and counts."""

    def __init__(self) -> None:
        self.body = key_set()
        self.head = b"200 OK"
        self.fields = b""
        self.is_stuck = False
        self.count = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.count += 1
        try:
            if self.is_stuck:
                await asyncio.Event().wait()
            length = b"content-length: %d\r\nconnection: close\r\n" % len(self.body)
            writer.write(b"HTTP/1.1 " + self.head + b"\r\n" + length + self.fields + b"\r\n" + self.body)
            await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def site() -> AsyncIterator[tuple[Site, str]]:
    site = Site()
    server = await asyncio.start_server(site, "127.0.0.1", 0)
    yield site, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/jwks"
    server.close()


def count(*keys: Any) -> int:
    return len(read_key_set(key_set(*keys), "here"))


@every_case(
    "key",
    [
        {"kty": "oct", "kid": "k1", "alg": "HS256", "k": encode(b"k" * 32)},
        {"kty": "oct", "kid": "k1", "alg": "RS256", "k": encode(b"k" * 32), "n": "AQAB", "e": "AQAB"},
        jwk_of(private_key("RS256"), use="enc"),
        jwk_of(private_key("RS256"), use=["sig"]),
        jwk_of(private_key("RS256"), key_ops=["encrypt"]),
        jwk_of(private_key("RS256"), key_ops="verify"),
        jwk_of(private_key("RS256"), alg="HS256"),
        jwk_of(private_key("RS256"), alg="none"),
        jwk_of(private_key("RS256"), alg="ES256"),
        jwk_of(private_key("RS256"), alg="RSA-OAEP"),
        jwk_of(private_key("RS256"), alg=["RS256"]),
        jwk_of(private_key("RS256"), kid=1),
        jwk_of(private_key("RS256"), kid="k" * 513),
        jwk_of(private_key("RS256"), n=1),
        jwk_of(private_key("RS256"), n=""),
        jwk_of(private_key("RS256"), e="AA"),
        jwk_of(private_key("RS256"), e="AQ"),
        jwk_of(private_key("RS256"), n="AQAB"),
        jwk_of(private_key("ES256"), alg="ES384"),
        jwk_of(private_key("ES256"), crv="P-384"),
        jwk_of(private_key("ES256"), crv=["P-256"]),
        jwk_of(private_key("ES256"), x=encode(b"\x01" * 32)),
        jwk_of(private_key("ES256"), x=encode(b"\x00" * 32), y=encode(b"\x00" * 32)),
        jwk_of(private_key("ES256"), y=None),
        jwk_of(private_key("EdDSA"), crv="X25519"),
        jwk_of(private_key("EdDSA"), crv="Ed448"),
        jwk_of(private_key("EdDSA"), x=encode(b"\x01" * 31)),
        jwk_of(private_key("EdDSA"), alg="ES256"),
        {**ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256K1()).public_key(), as_dict=True), "kid": "k1"},
        {"kty": ["RSA"]},
        {},
        [],
        None,
        "key",
    ],
)
def test_a_key_that_cannot_be_relied_on_is_left_out_and_logged(key: Any) -> None:
    with capture_logs() as logs:
        assert count(key, jwk_of(private_key("EdDSA"), kid="good")) == 1
    assert [each["event"] for each in logs] == ["key_not_used"]


def test_a_short_or_an_endless_rsa_key_is_left_out() -> None:
    short = rsa.generate_private_key(65_537, 1024)
    assert count(jwk_of(short, kid="short")) == 0
    assert count({"kty": "RSA", "kid": "long", "e": "AQAB", "n": encode(b"\xff" * 2048)}) == 0


def test_of_two_keys_with_one_name_the_first_counts() -> None:
    first, second = jwk_of(private_key("ES256"), kid="k1"), jwk_of(private_key("ES256", 1), kid="k1")
    keys = read_key_set(key_set(first, second, jwk_of(private_key("RS256"), kid="k1")), "here")
    assert len(keys) == 2
    with_first = read_key_set(key_set(first), "here").find("k1", "ES256")
    found = keys.find("k1", "ES256")
    assert found is not None
    assert with_first is not None
    assert found._key == with_first._key


def test_the_private_half_of_a_key_is_never_read() -> None:
    private = RSAAlgorithm.to_jwk(private_key("RS256"), as_dict=True)
    found = read_key_set(key_set({**private, "key_ops": ["sign", "verify"], "kid": "k1"}), "here").find("k1", "RS256")
    assert found is not None
    assert isinstance(found._key, rsa.RSAPublicKey)


@every_case(
    "document",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"keys": {}}',
        b'{"keys": null}',
        b"<html>",
        b"\xff\xfe",
        b"[" * 100_000,
        key_set(*[{}] * (MAX_KEYS + 1)),
        b" " * (MAX_BYTES + 1),
    ],
)
def test_what_is_no_key_set_is_refused(document: bytes) -> None:
    with pytest.raises(KeySetError):
        read_key_set(document, "here")


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "no such file or directory"), (b"nonsense", "is not a JWKS document: .*"), ("folder", "is not a file")],
)
async def test_a_file_that_cannot_be_read_at_the_start_is_an_error_of_one_line(
    tmp_path: Path, content: bytes | str | None, problem: str
) -> None:
    path = tmp_path / "keys.json"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(KeySetError, match=rf"^auth\.jwt\.jwks: {path}: {problem}$"):
        await Issuer().jwts(tmp_path, jwks=str(path))


async def test_a_file_that_is_replaced_is_in_force_without_a_restart(tmp_path: Path) -> None:
    old, new = Issuer(), Issuer(number=1)
    jwts = await old.jwts(tmp_path)
    assert jwts.find(old.token())
    source = KeyFile(str(tmp_path / "jwks.json"))
    await source.load(0.0)
    assert not source.is_due(FILE_SECS - 0.1)
    assert source.is_due(FILE_SECS)
    replace(tmp_path / "jwks.json", key_set(new.jwk()))
    await look(jwts)
    assert jwts.find(new.token())
    with pytest.raises(Unauthenticated, match="signature"):
        jwts.find(old.token())


async def test_a_token_that_is_remembered_does_not_outlive_its_key(tmp_path: Path) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    token = issuer.token()
    assert jwts.find(token)
    replace(tmp_path / "jwks.json", key_set())
    await look(jwts)
    with pytest.raises(Unauthenticated, match="names no key"):
        jwts.find(token)


async def test_a_file_that_was_only_touched_forgets_nothing(tmp_path: Path) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    token = issuer.token()
    first = jwts.find(token)
    replace(tmp_path / "jwks.json", (tmp_path / "jwks.json").read_bytes())
    await look(jwts)
    assert jwts.find(token) is first


@pytest.mark.parametrize("content", [None, b"", b"half of a {"])
async def test_the_last_good_keys_outlive_a_broken_file_which_is_logged_once(
    tmp_path: Path, content: bytes | None
) -> None:
    issuer = Issuer()
    jwts = await issuer.jwts(tmp_path)
    if content is None:
        (tmp_path / "jwks.json").unlink()
    else:
        replace(tmp_path / "jwks.json", content)
    with capture_logs() as logs:
        for _ in range(3):
            await look(jwts)
    assert [each["event"] for each in logs] == ["keys_not_read"]
    assert jwts.find(issuer.token())


async def test_keys_come_from_a_url(tmp_path: Path, site: tuple[Site, str]) -> None:
    issuer = Issuer()
    site[0].body = key_set(issuer.jwk())
    jwts = await issuer.jwts(tmp_path, jwks=site[1])
    assert jwts.find(issuer.token())


async def test_a_url_that_cannot_be_reached_at_the_start_is_a_warning(tmp_path: Path, site: tuple[Site, str]) -> None:
    issuer = Issuer()
    site[0].head = b"503 Busy"
    with capture_logs() as logs:
        jwts = await issuer.jwts(tmp_path, jwks=site[1])
    assert [(each["event"], each["reason"]) for each in logs] == [("keys_not_read", "answered with 503")]
    with pytest.raises(Unauthenticated, match="names no key"):
        jwts.find(issuer.token())


async def test_a_url_is_asked_every_five_minutes_and_after_a_failure_sooner(site: tuple[Site, str]) -> None:
    source = KeyUrl(site[1])
    assert source.is_due(0)
    await source.refresh(0)
    assert not source.is_due(URL_SECS - 0.1)
    assert source.is_due(URL_SECS)
    site[0].head = b"500 Broken"
    await source.refresh(URL_SECS)
    assert not source.is_due(URL_SECS + URL_LEAST_SECS - 0.1)
    assert source.is_due(URL_SECS + URL_LEAST_SECS)


async def test_an_unknown_key_makes_the_url_be_asked_soon_but_not_often(site: tuple[Site, str]) -> None:
    source = KeyUrl(site[1])
    await source.refresh(0)
    source.want()
    assert not source.is_due(URL_LEAST_SECS - 0.1)
    assert source.is_due(URL_LEAST_SECS)
    await source.refresh(URL_LEAST_SECS)
    assert not source.is_due(URL_LEAST_SECS * 2)
    for _ in range(100):
        source.want()
    assert not source.is_due(URL_LEAST_SECS * 2 - 0.1)
    assert site[0].count == 2


async def test_a_call_with_an_unknown_key_asks_nobody_itself(tmp_path: Path, site: tuple[Site, str]) -> None:
    old, new = Issuer(), Issuer(number=1)
    site[0].body = key_set(old.jwk())
    jwts = await old.jwts(tmp_path, jwks=site[1])
    site[0].body = key_set(old.jwk(), new.jwk(kid="k2"))
    for _ in range(50):
        with pytest.raises(Unauthenticated, match="names no key"):
            jwts.find(new.token({"kid": "k2"}))
    assert site[0].count == 1
    (source,) = jwts._sources.values()
    await source.refresh(0)
    assert jwts.find(new.token({"kid": "k2"}))


@pytest.mark.parametrize(
    ("head", "fields", "body"),
    [
        (b"404 Not Found", b"", None),
        (b"200 OK", b"", b"<html>sign in</html>"),
        (b"200 OK", b"", b"x" * (MAX_BYTES + 1)),
        (b"200 OK", b"content-encoding: gzip\r\n", gzip.compress(b'{"keys": []}', mtime=0)),
        (b"204 No Content", b"", b""),
    ],
)
async def test_the_last_good_keys_outlive_a_bad_answer(
    tmp_path: Path, site: tuple[Site, str], head: bytes, fields: bytes, body: bytes | None
) -> None:
    issuer = Issuer()
    site[0].body = key_set(issuer.jwk())
    jwts = await issuer.jwts(tmp_path, jwks=site[1])
    site[0].head, site[0].fields = head, fields
    site[0].body = site[0].body if body is None else body
    (source,) = jwts._sources.values()
    with capture_logs() as logs:
        await source.refresh(0)
    assert [each["event"] for each in logs] == ["keys_not_read"]
    assert jwts.find(issuer.token())


async def test_a_redirection_is_not_followed(tmp_path: Path, site: tuple[Site, str]) -> None:
    issuer = Issuer()
    site[0].head, site[0].fields = b"302 Found", b"location: " + site[1].encode() + b"2\r\n"
    await issuer.jwts(tmp_path, jwks=site[1])
    assert site[0].count == 1


async def test_an_issuer_that_never_answers_holds_up_nothing_for_long(
    tmp_path: Path, site: tuple[Site, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_sources, "FETCH_SECS", 0.1)
    site[0].is_stuck = True
    with capture_logs() as logs:
        await Issuer().jwts(tmp_path, jwks=site[1])
    assert [each["reason"] for each in logs] == ["did not answer within 0.1 seconds"]


async def test_the_keys_of_a_url_outlive_a_reload_while_the_issuer_is_away(
    tmp_path: Path, site: tuple[Site, str]
) -> None:
    issuer = Issuer()
    site[0].body = key_set(issuer.jwk())
    jwts = await issuer.jwts(tmp_path, jwks=site[1])
    site[0].head = b"500 Broken"
    jwts.reconfigure([issuer.settings(tmp_path, [], jwks=site[1])])
    principal = jwts.find(issuer.token())
    assert principal is not None
    assert principal.grants == ()


async def look(jwts: Jwts) -> None:
    """Look at all places, as if it were time."""
    for source in jwts._sources.values():
        await source.refresh(0)


def replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)
