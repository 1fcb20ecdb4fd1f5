"""The connection of the SDK: how it is kept alive, and what is sent with every call."""

import asyncio
import functools
from collections.abc import AsyncIterator

import grpc
import pytest

from taskyard import Client, Host, SyncClient, TaskyardError
from taskyard.connection.channel import open_channel
from taskyard.connection.credentials import Credentials
from taskyard_server.app.listening import SERVER_OPTIONS
from tests.cases import every_case


class RecordingServer(grpc.GenericRpcHandler):
    """Implements no method. `authorizations` are the authorization headers of the calls, by method."""

    def __init__(self):
        self.authorizations: dict[str, list[str]] = {}
        self.address = ""

    def service(self, details):
        name = details.method.rpartition("/")[2]
        self.authorizations[name] = [value for key, value in details.invocation_metadata if key == "authorization"]


@pytest.fixture
async def recording_server() -> AsyncIterator[RecordingServer]:
    handler = RecordingServer()
    server = grpc.aio.server(handlers=[handler])
    handler.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield handler
    await server.stop(None)


async def refused(call):
    with pytest.raises(TaskyardError):
        await call


@pytest.mark.parametrize(("token", "sent"), [("secret", ["Bearer secret"]), (None, []), ("", [])])
async def test_a_token_is_sent_with_every_call_and_stream(recording_server, token, sent):
    async with Client(recording_server.address, token=token) as client:
        await refused(client.submit("click"))
        await refused(client.get("a"))
        await refused(client.schedules.get("a"))
        await refused(anext(client.list()))
        await refused(anext(client.watch()))
    methods = ("SubmitTasks", "GetTask", "GetSchedule", "ListTasks", "WatchTasks")
    assert recording_server.authorizations == dict.fromkeys(methods, sent)


async def test_the_blocking_client_sends_its_token_too(recording_server):
    def call():
        with SyncClient(recording_server.address, token="secret") as client, pytest.raises(TaskyardError):
            client.get("a")

    await asyncio.to_thread(call)
    assert recording_server.authorizations == {"GetTask": ["Bearer secret"]}


def test_without_a_token_only_the_namespace_is_sent():
    assert Credentials("localhost:1", "shop").metadata() == (("taskyard-namespace", "shop"),)


@every_case(
    "given",
    [
        *({"token": text} for text in ("secret\n", "sécret", "a\x00")),
        *({"namespace": text} for text in ("shöp", "shop\n")),
        *(
            {"address": text}
            for text in ("", "localhost", ":50051", "localhost:", "localhost:0", "localhost:65536", "localhost:http")
        ),
        *({"address": text} for text in ("http://localhost:50051", "https://taskyard.example", "localhost:50051/")),
    ],
    ids=str,
)
async def test_malformed_arguments_are_refused_at_once(given):
    (name,) = given
    for kind in (Client, SyncClient, functools.partial(Host, host_id="host-1")):
        with pytest.raises(ValueError, match=f"^{name}: must be "):
            kind(**{"address": "localhost:50051", **given})


@every_case(
    "address", ["localhost:1", "127.0.0.1:65535", "[::1]:1", "unix:/run/taskyard.sock", "dns:///taskyard.example:1"]
)
async def test_a_well_formed_address_is_accepted(address):
    async with Client(address):
        pass
    Host(address, "host-1")


async def test_the_server_permits_the_pings_that_keep_the_connection_alive(monkeypatch):
    given = {}
    monkeypatch.setattr(grpc.aio, "insecure_channel", lambda _, options: given.update(options))
    credentials = Credentials("yard.example:1")
    open_channel(credentials, credentials.address)
    assert "retryPolicy" not in given["grpc.service_config"], "the SDK knows the effect of a repeat, gRPC does not"
    server = dict(SERVER_OPTIONS)
    assert given["grpc.keepalive_time_ms"] == 30_000
    assert given["grpc.keepalive_timeout_ms"] == 20_000
    # Servers of before 0.4.0 close connections that have more than two in less than four seconds each.
    assert given["grpc.keepalive_time_ms"] > 4_000
    assert server["grpc.http2.max_ping_strikes"] == 0
    assert given["grpc.keepalive_permit_without_calls"] == server["grpc.keepalive_permit_without_calls"] == 1
