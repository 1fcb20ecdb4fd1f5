"""Encrypted connections of both clients, and what they say where certificates are missing or wrong."""

import asyncio
from datetime import timedelta
from functools import partial

import grpc
import pytest

from taskyard import Client, SyncClient, Unavailable
from taskyard.connection.credentials import find_credentials
from taskyard.connection.explaining import explained
from tests.certificates import Authority


@pytest.fixture
def files(authority, tmp_path):
    """Paths: `ca`, and `cert` with `key` of a client."""
    cert, key = authority.leaf(uris=["spiffe://taskyard/host/h1"]).write(tmp_path, "client")
    return {"ca": authority.write(tmp_path), "cert": cert, "key": key}


def blocking(address, **options):
    with SyncClient(address, **options) as client:
        return client.get("a").id


async def asyncio_client(address, **options):
    async with Client(address, **options) as client:
        return (await client.get("a")).id


async def get(address, **options):
    """The answer to a call of each kind of client."""
    options = {"patience": 0.05, **options}
    found = await asyncio_client(address, **options)
    assert await asyncio.to_thread(partial(blocking, address, **options)) == found
    return found


async def error_of(address, **options):
    """The error of a call, the same for each kind of client."""
    options = {"patience": 0.05, **options}
    with pytest.raises(Unavailable) as raised:
        await asyncio_client(address, **options)
    with pytest.raises(Unavailable) as raised_again:
        await asyncio.to_thread(partial(blocking, address, **options))
    assert raised.value.reason == raised_again.value.reason
    assert "\n" not in raised.value.reason
    assert "failed to connect" in raised.value.details["raw"]
    return raised.value.reason.replace(address, "X")


async def test_a_server_with_tls_is_reached_by_its_authority(serve, with_tls, files):
    server = await serve(with_tls())
    assert await get(server.address, ca=files["ca"], token="secret") == "a"
    assert await get(f"https://{server.address}", ca=str(files["ca"])) == "a"
    assert server.seen == ["secret", "secret", "", ""]


async def test_https_trusts_the_authorities_of_this_system(serve, with_tls, files, monkeypatch):
    server = await serve(with_tls())
    monkeypatch.delenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(files["ca"]))
    assert await get(f"https://{server.address}") == "a"


async def test_a_server_that_asks_for_a_certificate_is_reached_by_one(serve, with_tls, files):
    server = await serve(with_tls(asks=True))
    assert await get(server.address, **files) == "a"


async def test_a_server_that_demands_tls_is_said_to(serve, with_tls):
    server = await serve(with_tls())
    assert await error_of(server.address) == (
        "the server at X closed the connection before it answered: if it demands TLS, use https://X or ca="
    )


async def test_so_it_is_where_localhost_has_another_address_that_refuses(serve, with_tls):
    port = (await serve(with_tls())).address.rpartition(":")[2]
    for _ in range(3):
        assert "if it demands TLS" in await error_of(f"localhost:{port}")


@pytest.mark.parametrize("how", ["ca", "https"])
async def test_a_server_without_tls_is_said_to_have_none(serve, files, how):
    server = await serve()
    address, options = (server.address, {"ca": files["ca"]}) if how == "ca" else (f"https://{server.address}", {})
    assert (await error_of(address, **options)).replace(server.address, "X") == (
        "the server at X does not speak TLS: leave out https:// and ca=, cert=, or have it use TLS"
    )


async def test_a_server_of_another_authority_is_not_trusted(serve, with_tls, tmp_path):
    server, other = await serve(with_tls()), Authority("another").write(tmp_path, "other")
    assert await error_of(server.address, ca=other, token="secret") == (
        f"the certificate of the server at X is not signed by {other}: give the file of its authority by ca="
    )
    assert "by an authority that this system trusts" in await error_of(f"https://{server.address}")
    assert server.seen == []


async def test_a_certificate_for_another_name_is_not_trusted(serve, with_tls, files):
    server = await serve(with_tls(names=["yard.example"], addresses=()))
    expected = "the certificate of the server at X is for other names: use one of those in the address"
    assert await error_of(server.address, ca=files["ca"]) == expected


FAILED = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: "
HANDSHAKE = "handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (
            f"Ssl {HANDSHAKE}CERTIFICATE_VERIFY_FAILED: certificate has expired",
            "not valid now: certificate has expired",
        ),
        (
            f"Tls {HANDSHAKE}CERTIFICATE_VERIFY_FAILED: certificate has expired: OK",
            "not valid now: certificate has expired",
        ),
        (f"Tls {HANDSHAKE}CERTIFICATE_VERIFY_FAILED: certificate is not yet valid: OK", "certificate is not yet valid"),
        ("Peer name localhost is not in peer certificate", "for other names: use one of those in the address"),
        (
            "Custom verification check failed with error: UNAUTHENTICATED: Hostname Verification Check failed.",
            "for other names: use one of those in the address",
        ),
    ],
)
def test_the_words_of_older_and_newer_grpc_mean_the_same(raw, problem):
    error = explained(Unavailable(FAILED + raw), find_credentials("https://127.0.0.1:1"), "127.0.0.1:1")
    assert error.reason.startswith("the certificate of the server at 127.0.0.1:1 is ")
    assert error.reason.endswith(problem)


async def test_an_expired_certificate_is_not_trusted(serve, with_tls, files):
    server = await serve(with_tls(valid_until=-timedelta(hours=1)))
    expected = "the certificate of the server at X is not valid now: certificate has expired"
    assert await error_of(server.address, ca=files["ca"]) == expected


async def test_a_missing_client_certificate_is_named(serve, with_tls, files):
    server = await serve(with_tls(asks=True))
    assert await error_of(server.address, ca=files["ca"]) == (
        "the server at X closed the connection before it answered: if it demands a client certificate, "
        "give cert= and key="
    )


async def test_a_client_certificate_of_another_authority_is_named(serve, with_tls, files, tmp_path):
    server = await serve(with_tls(asks=True))
    cert, key = Authority("another").leaf().write(tmp_path, "other")
    assert f"it may not accept the client certificate {cert}" in await error_of(
        server.address, ca=files["ca"], cert=cert, key=key
    )


async def test_without_a_server_none_answers(files):
    assert await error_of("127.0.0.1:1") == "no server answers at X, tried for 0.05 s"
    assert await error_of("127.0.0.1:1", ca=files["ca"]) == "no server answers at X, tried for 0.05 s"


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ({"ca": "nothing"}, "ca: {folder}/nothing: No such file or directory"),
        ({"ca": "client.key"}, "ca: {folder}/client.key: holds no certificates in PEM"),
        ({"cert": "nothing"}, "cert: {folder}/nothing: No such file or directory"),
        ({"cert": "ca.pem"}, "key: {folder}/client.key: belongs to another certificate"),
        ({"key": "ca.pem"}, "key: {folder}/ca.pem: it and {folder}/client.pem are not both in PEM"),
        ({"key": "locked"}, "key: {folder}/locked: has a password, which is not supported"),
    ],
    ids=str,
)
async def test_a_file_that_is_not_what_it_should_be_is_named_at_once(authority, files, tmp_path, broken, problem):
    leaf = authority.leaf()
    (tmp_path / "locked").write_bytes(leaf.encrypted_key(b"sesame"))
    options = files | {name: tmp_path / file for name, file in broken.items()}
    with pytest.raises(ValueError, match=r"^(ca|cert|key): ") as raised:
        Client("127.0.0.1:1", **options)
    assert str(raised.value) == problem.format(folder=tmp_path)


async def test_new_connections_have_the_files_of_now_and_broken_ones_leave_the_last(files, caplog):
    found = find_credentials("127.0.0.1:1", environment={}, **files)
    before = found.for_channel()
    assert found.for_channel() is not before
    files["cert"].write_text("half a")
    last = found.for_channel()
    assert last is found.for_channel()
    assert "the certificates stay as they were" in caplog.records[-1].message


async def test_credentials_of_grpc_stand_in_place_of_files(files):
    with pytest.raises(ValueError, match=r"^credentials: stand in place of ca"):
        Client("127.0.0.1:1", credentials=grpc.ssl_channel_credentials(), ca=files["ca"])
