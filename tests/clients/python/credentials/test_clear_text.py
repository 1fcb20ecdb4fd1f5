"""A token is sent in the clear to this machine alone, unless that is allowed."""

import asyncio
import functools

import grpc
import pytest

from taskyard import Client, Host, SyncClient, Unavailable
from taskyard.connection.addresses import is_local
from taskyard.connection.channel import options_for
from taskyard.connection.credentials import find_credentials
from tests.cases import every_case

KINDS = (Client, SyncClient, functools.partial(Host, host_id="host-1"))
LOCAL = [
    *("localhost:1", "LOCALHOST:1", "127.0.0.1:1", "127.8.8.8:1", "[::1]:1"),
    *("dns:///localhost:1", "dns:localhost:1", "ipv4:127.0.0.1:1", "ipv6:[::1]:1"),
    *("unix:/run/taskyard.sock", "unix:///run/taskyard.sock", "unix-abstract:taskyard"),
]
ELSEWHERE = [
    *("yard.example:1", "10.0.0.1:1", "0.0.0.0:1", "[2001:db8::1]:1", "localhost.example:1", "127.0.0.1.example:1"),
    # The resolver decides: these forms reach loopback on some systems only.
    *("127.1:1", "2130706433:1", "0x7f.0.0.1:1", "my.localhost:1", "[::ffff:10.0.0.1]:1"),
    # What gRPC reads otherwise than it looks.
    *("::1:5005", "localhost:1@yard.example:1", "localhost:80:1", "localhost%2eyard.example:1"),
    *("dns://8.8.8.8/localhost:1", "ipv4:10.0.0.1:1", "vsock:2:1", "xds:localhost:1"),
]


@every_case("address", LOCAL)
def test_what_stays_on_this_machine_is_local(address):
    assert is_local(address)


@every_case("address", ELSEWHERE)
def test_what_may_leave_this_machine_is_not(address):
    assert not is_local(address)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_token_in_the_clear_is_refused_and_the_error_says_what_to_do(kind):
    with pytest.raises(ValueError, match="in the clear") as raised:
        kind("yard.example:50051", token="secret")
    assert str(raised.value) == (
        "address: the token given by token= is not sent in the clear to yard.example:50051: encrypt the connection "
        "(https://yard.example:50051 or ca=), or allow it by insecure=True"
    )


async def test_the_advice_is_an_address_that_is_taken():
    with pytest.raises(ValueError, match=r"encrypt the connection \(https://HOST:PORT or ca=\)"):
        Client("dns:///yard.example:50051", token="secret")


@pytest.mark.parametrize(
    "allowed",
    [{"insecure": True}, {"token": None}, {"credentials": grpc.ssl_channel_credentials()}],
    ids=["insecure", "token", "credentials"],
)
async def test_it_is_not_refused_where_it_is_allowed_or_encrypted_or_there_is_no_token(allowed):
    async with Client("yard.example:50051", **{"token": "secret", **allowed}):
        pass


async def test_https_encrypts_with_the_authorities_of_this_system():
    found = find_credentials("https://yard.example:50051", token="secret", environment={})
    assert (found.address, found.is_encrypted, found.tls.ca) == ("yard.example:50051", True, "")


def test_a_proxy_of_the_environment_does_not_get_what_is_meant_for_this_machine():
    def options(address):
        return dict(options_for(address))

    assert options("localhost:1") == {"grpc.enable_http_proxy": 0}
    assert "grpc.enable_http_proxy" not in options("yard.example:1")


async def test_a_token_for_this_machine_is_not_sent_through_a_proxy(monkeypatch):
    met = []

    async def proxy(reader, writer):
        met.append(await reader.read(1000))
        writer.close()

    listener = await asyncio.start_server(proxy, "127.0.0.1", 0)
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    monkeypatch.delenv("no_proxy", raising=False)
    async with Client("127.0.0.1:1", token="secret", patience=0.05) as client:
        with pytest.raises(Unavailable, match="no server answers"):
            await client.get("a")
    listener.close()
    assert met == []
