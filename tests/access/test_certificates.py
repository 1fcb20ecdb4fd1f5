"""Who is known by the URI of a client certificate (docs/operate/security.md, Client certificates)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import ValidationError

from taskyard_server.access.authentication import Authentication, Credentials
from taskyard_server.access.certificates import ClientCertificates, forwarded_uris, read_certificate
from taskyard_server.access.configured_grants import grants_of
from taskyard_server.core.errors import Unauthenticated
from taskyard_server.settings.security import CertificateRule, GrantSettings
from tests.cases import every_case
from tests.certificates import Authority

HOST = "spiffe://taskyard/host/h1"
VIEWER, HOSTS = GrantSettings(role="viewer"), GrantSettings(role="host", hosts=["h*"])
SENT = "By=spiffe://taskyard/gateway/g1;Hash=" + "0" * 64 + ";URI="


def rule(uri: str, *grants: GrantSettings) -> CertificateRule:
    return CertificateRule(uri=uri, grants=list(grants or (VIEWER,)))


EVERYBODY = ClientCertificates([rule("spiffe://taskyard/*")])


@pytest.mark.parametrize(
    "pattern", [HOST, "spiffe://taskyard/host/*", "spiffe://taskyard/host/h*", "spiffe://taskyard/*"]
)
def test_a_uri_that_a_rule_names_is_a_principal_of_this_name(pattern: str) -> None:
    principal = ClientCertificates([rule(pattern)]).find([HOST])
    assert principal is not None
    assert (principal.name, principal.credential) == (HOST, f"certificate:{HOST}")
    assert principal.grants == grants_of([VIEWER])


def test_several_rules_add_up_and_each_grant_counts_once() -> None:
    rules = [rule(HOST, VIEWER), rule("spiffe://taskyard/host/*", HOSTS, VIEWER), rule("spiffe://taskyard/x", VIEWER)]
    principal = ClientCertificates(rules).find([HOST])
    assert principal is not None
    assert principal.grants == grants_of([VIEWER, HOSTS])


@every_case(
    "uri",
    [
        "spiffe://taskyard/host/h11",
        "spiffe://taskyard/host",
        "spiffe://taskyard/host/H1",
        "spiffe://taskyard/Host/h1",
        "spiffe://other/host/h1",
        "SPIFFE://taskyard/host/h1",
    ],
)
def test_a_uri_that_no_rule_names_is_nobody(uri: str) -> None:
    assert ClientCertificates([rule(HOST)]).find([uri]) is None


@every_case(
    "uri",
    [
        "",
        "spiffe://taskyard",
        "spiffe://taskyard/",
        "spiffe://taskyard//host/h1",
        "spiffe://taskyard/host//h1",
        "spiffe://taskyard/host/h1/",
        "spiffe://taskyard/host/../admin",
        "spiffe://taskyard/./host",
        "spiffe://taskyard/host/..",
        "spiffe://taskyard/host%2Fh1",
        "spiffe://taskyard/host/h1;URI=spiffe://taskyard/admin",
        "spiffe://taskyard/host/h1,By=x",
        "spiffe://taskyard/host/h1?x",
        "spiffe://taskyard/host/h1#x",
        "spiffe://taskyard/host/h1\0",
        "spiffe://taskyard/host/h1\n",
        "spiffe://taskyard/host/h 1",
        "spiffe://taskyard/host/é",
        "spiffe://taskyard.evil.example/host/h1",
        "spiffe://taskyard@evil.example/host/h1",
        "spiffe://evil.example/spiffe://taskyard/host/h1",
        " spiffe://taskyard/host/h1",
        "https://taskyard/host/h1",
        "spiffe://taskyard/" + "x" * 2_048,
    ],
)
def test_what_is_no_spiffe_id_of_ours_is_nobody_whatever_the_rules(uri: str) -> None:
    assert EVERYBODY.find([uri]) is None


@pytest.mark.parametrize(
    "uri", ["spiffe://taskyard/gateway", "spiffe://taskyard/gateway/g1", "spiffe://taskyard/gateway/a/b"]
)
def test_a_gateway_is_never_a_principal(uri: str) -> None:
    assert (
        ClientCertificates([rule("spiffe://taskyard/*"), rule("spiffe://taskyard/gateway*"), rule(uri)]).find([uri])
        is None
    )


def test_a_certificate_with_several_uris_is_nobody() -> None:
    for others in ("spiffe://taskyard/host/h2", "urn:x:y", "spiffe://taskyard/gateway/g1", HOST):
        assert EVERYBODY.find([HOST, others]) is None
        assert EVERYBODY.find([others, HOST]) is None
    assert EVERYBODY.find([]) is None


def test_without_rules_nobody_is_known() -> None:
    assert ClientCertificates().find([HOST]) is None


def test_a_certificate_that_has_expired_since_the_handshake_is_refused() -> None:
    now = 1_000.0
    certificates = ClientCertificates([rule(HOST)], lambda: now)
    assert certificates.find([HOST], 1_000.5)
    now = 1_000.5
    with pytest.raises(Unauthenticated, match="expired"):
        certificates.find([HOST], 1_000.5)


def test_a_token_that_fails_is_not_made_good_by_a_certificate() -> None:
    authentication = Authentication([], EVERYBODY)
    assert authentication.principal(Credentials(None, (HOST,))).name == HOST
    with pytest.raises(Unauthenticated):
        authentication.principal(Credentials("Bearer wrong", (HOST,)))


@every_case("uri", ["spiffe://other/x", "spiffe://taskyard/a*b", "*", "spiffe://*", "spiffe://taskyard*", ""])
def test_a_rule_is_for_uris_of_ours(uri: str) -> None:
    with pytest.raises(ValidationError):
        rule(uri)


def test_a_certificate_has_the_uris_of_its_alternative_names_and_nothing_else() -> None:
    authority = Authority()
    names = ["localhost", "spiffe://taskyard/dns"]
    known = read_certificate(authority.leaf(uris=[HOST, "urn:x:y"], names=names, common_name=HOST).cert)
    assert known.uris == (HOST, "urn:x:y")


@pytest.mark.parametrize("names", [(), ("localhost",), (HOST,)])
def test_a_common_name_or_a_dns_name_is_no_uri(names: tuple[str, ...]) -> None:
    known = read_certificate(Authority().leaf(names=names, addresses=(), common_name=HOST).cert)
    assert known.uris == ("",)


def test_a_uri_does_not_end_at_a_nul() -> None:
    known = read_certificate(Authority().leaf(uris=[f"{HOST}\0.evil.example"]).cert)
    assert known.uris == (f"{HOST}\0.evil.example",)
    assert EVERYBODY.find(known.uris) is None


def test_a_certificate_is_known_until_it_expires() -> None:
    soon, late = (Authority().leaf(uris=[HOST], valid_until=timedelta(hours=hours)) for hours in (1, 2))
    assert read_certificate(late.cert).valid_until - read_certificate(soon.cert).valid_until == pytest.approx(
        3_600, abs=2
    )


@pytest.mark.parametrize("pem", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_nobody(pem: bytes) -> None:
    assert read_certificate(pem) == ((("",)), 0)


def test_the_gateway_tells_of_one_uri() -> None:
    assert forwarded_uris(SENT + HOST) == (HOST,)
    assert forwarded_uris(f"URI={HOST}") == (HOST,)
    assert forwarded_uris(None) == ()


@every_case(
    "header",
    [
        "",
        SENT,
        HOST,
        f"URI=;{HOST}",
        f"uri={HOST}",
        f"XURI={HOST}",
        f" URI={HOST}",
        f'By="x;URI={HOST}"',
        f'Hash=00;Subject="CN=x;URI={HOST}";URI=urn:x',
        f'Hash=00;Subject="CN=x\\"\\;URI={HOST}";URI=',
        f"{SENT}{HOST};DNS=localhost",
        f"{SENT}{HOST};URI=urn:x",
        f"{SENT}urn:x;URI={HOST}",
        f"{SENT}{HOST},{SENT}{HOST}",
        f"{SENT}{HOST}%00",
        f"{SENT}spiffe%3A%2F%2Ftaskyard/host/h1",
        f'{SENT}"{HOST}"',
        f"By={HOST};Hash=00;URI=",
        f"By={HOST}",
    ],
)
def test_a_header_that_tells_of_anything_else_is_nobody(header: str) -> None:
    uris = forwarded_uris(header)
    assert len(uris) == 1
    assert EVERYBODY.find(uris) is None
