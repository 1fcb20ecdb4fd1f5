"""What callers get when the replica that owns their namespace is down, dies, stands still, or is not known yet."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from taskyard.v1 import runtime_host_pb2, runtime_host_pb2_grpc, task_pb2, task_pb2_grpc
from tests.certificates import Authority
from tests.gateway.lone_server import lone_server
from tests.gateway.yards import NAMESPACE, Replica, refuse_theirs, replica, whose
from tests.waiting import until

pytestmark = [pytest.mark.gate("several gateways, killed and cut off"), pytest.mark.long]

UNREACHABLE = {"code": "unavailable", "error": "the server cannot be reached", "retryable": True}
NOT_HERE = {
    "code": "unavailable",
    "error": "this namespace is served by the replica b",
    "retryable": True,
    "details": {"owner": "b"},
}
"""What a replica says that is asked in the place of one that cannot be reached."""
GET = task_pb2.GetTaskRequest(task_id="tsk_1")
FROZEN_SECS = 7.0
"""What gateway/README.md says of a replica that stands still."""
ENDED = grpc.StatusCode.INTERNAL
"""Of a stream that had begun: to Envoy its headers are sent, so that it can but reset it. The SDKs go on elsewhere."""


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
async def a(authority: Authority, tmp_path: Path) -> AsyncIterator[Replica]:
    async with replica("a", authority, tmp_path) as a:
        yield a


async def assert_unavailable(a: Replica, namespace: str, secs: float, said: object = NOT_HERE) -> None:
    """A call is refused within this time as one to be repeated, by REST, with this body, and by gRPC."""
    async with a.client() as http, a.channel() as channel, asyncio.timeout(secs):
        for verb, path, body in (("GET", "/tasks/x", None), ("POST", "/tasks", {"agentId": "x"})):
            answer = await http.request(verb, path, json=body, headers={NAMESPACE: namespace})
            assert (answer.status_code, answer.json()) == (503, said)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await task_pb2_grpc.TaskServiceStub(channel).GetTask(GET, metadata=((NAMESPACE, namespace),))
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


async def knows(a: Replica, address: str, namespace: str = "theirs") -> None:
    """Let the gateway know of a replica b at this address, and wait until it does."""
    a.tasks.refuse = refuse_theirs
    a.gateway.carrier.take_replicas({"b": address})
    a.gateway.carrier.take_owners({namespace: "b"})

    async def told() -> dict[str, object]:
        async with a.client() as http:
            answer: dict[str, object] = (await http.get("/tasks/tsk_1", headers={NAMESPACE: namespace})).json()
            return answer

    # The table may be ahead of the clusters for a moment; then Envoy itself refuses.
    await until(told, lambda told: told.get("taskId") != "a" and told.get("error") != UNREACHABLE["error"])


async def test_where_nobody_listens_it_is_unavailable(a: Replica) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        await knows(a, f"127.0.0.1:{reserved.getsockname()[1]}")
        await assert_unavailable(a, "theirs", secs=3)


@pytest.mark.parametrize("address", ["nowhere.invalid:1", "[::1]:1", "localhost:1"])
async def test_a_name_that_is_none_and_an_address_without_anybody_are_unavailable(a: Replica, address: str) -> None:
    await knows(a, address)
    await assert_unavailable(a, "theirs", secs=5)
    async with a.client() as http:
        assert await whose(http, "ours") == "a"


async def test_a_replica_is_reached_by_the_name_of_its_host(a: Replica, authority: Authority, tmp_path: Path) -> None:
    async with replica("b", authority, tmp_path) as b:
        await knows(a, b.listener.replace("127.0.0.1", "localhost"))
        await a.carries("theirs", to="b")


async def test_a_replica_that_hangs_up_is_unavailable(a: Replica) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        await knows(a, f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await assert_unavailable(a, "theirs", secs=3)


async def test_a_replica_that_never_shakes_hands_is_unavailable(a: Replica) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        await knows(a, f"127.0.0.1:{silent.getsockname()[1]}")
        await assert_unavailable(a, "theirs", secs=20)


async def test_a_table_ahead_of_the_list_of_replicas_is_unavailable(a: Replica) -> None:
    table = a.gateway.carrier._table
    assert table is not None
    with table.path.open("a") as file:
        file.write("theirs replica-of-tomorrow\n")
    await assert_unavailable(a, "theirs", secs=3, said=UNREACHABLE)


async def test_what_a_replica_owns_that_is_not_known_is_served_here(a: Replica) -> None:
    a.gateway.carrier.take_owners({"theirs": "b"})
    await a.carries("theirs", to="a")


async def test_calls_under_way_end_when_their_replica_is_killed(
    a: Replica, authority: Authority, tmp_path: Path
) -> None:
    async with lone_server("b", authority, tmp_path) as (process, address), a.channel() as channel, a.client() as http:
        await knows(a, address)
        await a.carries("theirs", to="b")
        metadata = ((NAMESPACE, "theirs"),)
        watch = task_pb2_grpc.TaskServiceStub(channel).WatchTasks(task_pb2.WatchTasksRequest(), metadata=metadata)
        host = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel).Connect(metadata=metadata)
        await host.write(runtime_host_pb2.ConnectRequest())
        assert (await host.read()).welcome.session == "b"
        assert (await watch.read()).cursor
        silent = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel).Connect(metadata=metadata)
        process.send_signal(signal.SIGKILL)
        assert await host.code() == ENDED
        assert await watch.code() == ENDED
        assert await silent.code() == grpc.StatusCode.UNAVAILABLE
        assert await whose(http, "theirs") == "503"
    async with lone_server("c", authority, tmp_path) as (_, address):
        a.gateway.carrier.take_replicas({"b": address})
        await a.carries("theirs", to="c")


async def test_calls_under_way_end_when_their_replica_stands_still(
    a: Replica, authority: Authority, tmp_path: Path
) -> None:
    async with lone_server("b", authority, tmp_path) as (process, address), a.channel() as channel, a.client() as http:
        await knows(a, address)
        await a.carries("theirs", to="b")
        host = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel).Connect(metadata=((NAMESPACE, "theirs"),))
        await host.write(runtime_host_pb2.ConnectRequest())
        assert (await host.read()).welcome.session == "b"
        process.send_signal(signal.SIGSTOP)
        # One of them is asked by REST, and then the replica is known no more.
        asked = asyncio.create_task(whose(http, "theirs"))
        await asyncio.sleep(0.2)
        a.gateway.carrier.take_replicas({})
        assert await host.code() == ENDED
        assert await asked == "503"


async def test_a_silent_stream_to_another_replica_lives(a: Replica, authority: Authority, tmp_path: Path) -> None:
    """The gateway asks every 3 s whether the server is there, who puts up with it: the third would end the stream."""
    async with replica("b", authority, tmp_path) as b, a.channel() as channel:
        a.know(b, owners={"theirs": "b"})
        await a.carries("theirs", to="b")
        host = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel).Connect(metadata=((NAMESPACE, "theirs"),))
        for secs in (0, 18):
            await asyncio.sleep(secs)
            await host.write(runtime_host_pb2.ConnectRequest())
            assert (await host.read()).welcome.session == "b"
        host.cancel()
