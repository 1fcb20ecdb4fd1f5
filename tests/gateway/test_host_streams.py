"""The host stream through the gateway: both directions flow at once, silence is allowed, and ends arrive."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import httpx
import pytest

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.gateway.gateway import Gateway
from tests.gateway.gateways import client_of, gateway_to
from tests.services.host_streams import ServerUnderTest, serving
from tests.waiting import until

QUIET_SECS = 3.0


@pytest.fixture
async def server() -> AsyncIterator[ServerUnderTest]:
    async with serving() as server:
        yield server


@pytest.fixture
async def gateway(server: ServerUnderTest) -> AsyncIterator[Gateway]:
    async with gateway_to(server.address) as gateway:
        yield gateway


@pytest.fixture
async def outside(server: ServerUnderTest, gateway: Gateway) -> AsyncIterator[ServerUnderTest]:
    """The same server, reached through the gateway."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(gateway.address, options) as channel:
        yield ServerUnderTest(server.engine, channel, None, 0)


async def test_a_host_works_over_the_gateway(server: ServerUnderTest, outside: ServerUnderTest) -> None:
    stream = await outside.connect(credit=2)
    task_id = await server.submit()
    task = await stream.task()
    assert task.task.task_id == task_id
    assert await stream.report_one(task, started=True) == "running"
    assert not (await stream.heartbeat(task)).lost
    assert await stream.report_one(task, completed=True) == "done"
    assert await stream.report_one(task, completed=True) == "lease_lost"
    await stream.leave()
    assert not server.leftovers()


async def test_cancels_and_drains_arrive_unasked(server: ServerUnderTest, outside: ServerUnderTest) -> None:
    stream = await outside.connect(credit=1)
    task_id = await server.submit()
    task = await stream.task()
    await server.cancel(task_id)
    assert (await stream.cancellation()).task_id == task.task.task_id
    await server.drain()
    assert (await stream.receive("drain")).reason


async def test_a_quiet_stream_stays_open(server: ServerUnderTest, outside: ServerUnderTest) -> None:
    stream = await outside.connect(credit=1)
    reading = asyncio.ensure_future(stream.call.read())
    done, _ = await asyncio.wait((reading,), timeout=QUIET_SECS)
    assert not done
    task_id = await server.submit()
    assert (await reading).assignments.assignments[0].task.task_id == task_id


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda server: server.deregister(), grpc.StatusCode.FAILED_PRECONDITION),
        (lambda server: server.engine.admin.close(), grpc.StatusCode.UNAVAILABLE),
    ],
    ids=["deregistered", "shut down"],
)
async def test_the_reason_why_a_stream_ended_arrives(
    server: ServerUnderTest, outside: ServerUnderTest, end: Callable[[ServerUnderTest], Any], code: grpc.StatusCode
) -> None:
    stream = await outside.connect()
    await end(server)
    with pytest.raises(grpc.aio.AioRpcError) as told:
        await stream.read_to_end()
    assert told.value.code() is code
    assert not server.leftovers()


async def test_a_breach_of_the_protocol_is_answered_as_without_the_gateway(outside: ServerUnderTest) -> None:
    stream = outside.stream()
    await stream.send(credit=pb.Credit(count=1))
    with pytest.raises(grpc.aio.AioRpcError) as told:
        await stream.read_to_end()
    assert told.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert told.value.details() == "hello: must come first"


async def test_a_host_that_disconnects_is_noticed_at_once(server: ServerUnderTest, outside: ServerUnderTest) -> None:
    stream = await outside.connect(credit=1)
    stream.call.cancel()
    await until(lambda: not server.leftovers())


async def test_a_message_above_the_limit_for_rest_bodies_passes(outside: ServerUnderTest) -> None:
    stream = await outside.connect()
    many = [
        pb.Report(task_id=f"tsk_{number:040}", fencing_token=1, started=pb.TaskStarted()) for number in range(40_000)
    ]
    assert pb.Reports(reports=many).ByteSize() > 1_048_576
    assert len(await stream.report(*many)) == 40_000


async def test_rest_callers_cannot_open_a_stream(gateway: Gateway) -> None:
    async with client_of(gateway) as http:
        response = await http.post("/taskyard.v1.RuntimeHostService/Connect", json={})
    assert response.status_code == 404
    assert response.json()["code"] == "not_found"


async def test_silent_streams_have_no_time_out_and_pings_find_dead_peers(gateway: Gateway) -> None:
    listener = await listener_in_force(gateway)
    connections = listener["filter_chains"][0]["filters"][0]["typed_config"]
    (route,) = [
        route
        for route in connections["route_config"]["virtual_hosts"][0]["routes"]
        if route["match"].get("prefix") == "/" and "route" in route and "headers" in route["match"]
    ]
    assert route["route"]["timeout"] == "0s"
    assert route["route"]["idle_timeout"] == "0s"
    assert "max_stream_duration" not in route["route"]
    assert connections["http2_protocol_options"]["connection_keepalive"]["interval"] == "30s"
    assert route["typed_per_filter_config"]["buffer"]["disabled"] is True


async def listener_in_force(gateway: Gateway) -> Any:
    """The configuration of the listener, as Envoy reports it."""
    transport = httpx.AsyncHTTPTransport(uds=str(gateway._folder / "admin.sock"))
    async with httpx.AsyncClient(transport=transport, base_url="http://admin", timeout=10) as http:
        dump = (await http.get("/config_dump", params={"resource": "static_listeners"})).json()
    (listener,) = dump["configs"]
    return listener["listener"]
