"""Hosts with tokens and certificates: what they send, and what happens when the server refuses them."""

import asyncio

import grpc
import pytest

from taskyard import TaskyardError
from taskyard.host import Host
from tests.certificates import Authority, replace
from tests.waiting import LIMIT_SECS, until


@pytest.fixture
def token_file(tmp_path):
    """A file with the token `one`."""
    return replace(tmp_path / "token", b"one\n")


def sent(stream):
    return stream.metadata["authorization"]


async def ended(running):
    with pytest.raises(TaskyardError) as raised:
        await asyncio.wait_for(running, LIMIT_SECS)
    return raised.value


async def test_each_stream_has_the_token_that_the_file_has_then(server, make_host, work, token_file):
    host = make_host(token_file=token_file)
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    assert sent(stream) == "Bearer one"
    replace(token_file, b"two")
    stream.close()
    assert sent(await server.welcomed()) == "Bearer two"


async def test_a_host_whose_token_expires_reconnects_with_the_new_one(server, make_host, work, token_file):
    host = make_host(token_file=token_file)
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    replace(token_file, b"two")
    stream.abort("unauthenticated", "this token has expired")
    assert sent(await server.welcomed()) == "Bearer two"


async def test_a_host_whose_token_is_not_renewed_tries_once_more_and_ends(server, make_host, work, token_file):
    host = make_host(token_file=token_file)
    host.action("click")(lambda _: None)
    running = work(host)
    stream = await server.welcomed()
    server.refuse = ("unauthenticated", "this token has expired")
    stream.abort("unauthenticated", "this token has expired")
    error = await ended(running)
    expected = f"this token has expired (tried: the token in the file {token_file} given by token_file=)"
    assert (error.code, error.reason) == ("unauthenticated", expected)
    assert len(server.hellos) == 2


async def test_a_host_that_was_never_welcome_ends_at_once(server, make_host, work):
    server.refuse = ("unauthenticated", "this token was revoked")
    host = make_host(token="secret")
    host.action("click")(lambda _: None)
    error = await ended(work(host))
    assert error.reason == "this token was revoked (tried: the token given by token=)"
    assert len(server.hellos) == 1


async def test_a_host_that_may_not_do_this_ends_at_once(server, make_host, work, token_file):
    server.refuse = ("permission_denied", "the role host is missing")
    host = make_host(token_file=token_file)
    host.action("click")(lambda _: None)
    assert (await ended(work(host))).reason == "the role host is missing"
    assert len(server.hellos) == 1


async def test_a_host_tells_what_its_connection_lacks_and_tries_on(serve_tls, work, tmp_path, caplog):
    address, authority = serve_tls
    ca = authority.write(tmp_path)
    host = Host(address, "host-1", ca=ca)
    host.action("click")(lambda _: None)
    running = work(host)
    await until(lambda: caplog.records)
    assert caplog.records[0].message == (
        f"host host-1 is not connected yet: the server at {address} closed the connection before it "
        "answered: if it demands a client certificate, give cert= and key=. It tries until it is, with pauses of "
        "at most 5 s"
    )
    assert not running.done()


@pytest.fixture
async def serve_tls():
    """A server that asks for client certificates, and its authority."""
    authority, server = Authority(), grpc.aio.server()
    leaf = authority.leaf()
    credentials = grpc.ssl_server_credentials([(leaf.key, leaf.cert)], authority.cert, True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    yield f"127.0.0.1:{port}", authority
    await server.stop(None)


def test_files_are_checked_when_the_host_is_made(tmp_path):
    with pytest.raises(ValueError, match=r"^ca: .*/nothing: No such file"):
        Host("127.0.0.1:1", "host-1", ca=tmp_path / "nothing")
