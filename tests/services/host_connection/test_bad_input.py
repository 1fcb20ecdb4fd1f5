"""Connect, invalid messages: each ends the stream with an INVALID_ARGUMENT that names the field, and frees it."""

import math

import grpc
import pytest
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2 import Machine
from tests.cases import every_case
from tests.services.host_streams import CONNECT, held_lease

HELLO = pb.ConnectRequest(hello=pb.Hello(host_id="host", instance="i"))


def hello(**fields):
    return pb.ConnectRequest(hello=pb.Hello(**{"host_id": "host", "instance": "i", **fields}))


def heartbeat(**fields):
    return pb.ConnectRequest(heartbeat=pb.Heartbeat(**fields))


def nested_struct(levels):
    value = Value(number_value=1)
    for _ in range(levels):
        value = Value(list_value=ListValue(values=[value]))
    return Struct(fields={"x": value})


LONG = "x" * 1_025
LARGE = Struct(fields={"x": Value(string_value="x" * 262_144)})

BAD_HELLOS = {
    "credit before hello": (pb.ConnectRequest(credit=pb.Credit(count=1)), "hello"),
    "a heartbeat before hello": (heartbeat(sequence=1), "hello"),
    "reports before hello": (pb.ConnectRequest(reports=pb.Reports()), "hello"),
    "an empty message first": (pb.ConnectRequest(), "hello"),
    "no host id": (hello(host_id=""), "host_id"),
    "a reserved host id": (hello(host_id="taskyard:x"), "host_id"),
    "a long host id": (hello(host_id=LONG), "host_id"),
    "a host id of control characters": (hello(host_id="a\nb"), "host_id"),
    "no instance": (hello(instance=""), "instance"),
    "a long instance": (hello(instance=LONG), "instance"),
    "a long display name": (hello(display_name=LONG), "display_name"),
    "65 capabilities": (hello(capabilities=[str(number) for number in range(65)]), "capabilities"),
    "an empty capability": (hello(capabilities=[""]), "capabilities"),
    "a long capability": (hello(capabilities=[LONG]), "capabilities"),
    "a long project": (hello(project=LONG), "project"),
    "65 actions": (hello(actions=[str(number) for number in range(65)]), "actions"),
    "an empty action": (hello(actions=[""]), "actions"),
    "65 labels": (hello(labels={str(number): "" for number in range(65)}), "labels"),
    "a label without a key": (hello(labels={"": "x"}), "labels"),
    "a long label": (hello(labels={"a": LONG}), "labels"),
    "a lease of no length": (hello(lease_secs=0), "lease_secs"),
    "a lease over an hour": (hello(lease_secs=3_601), "lease_secs"),
    "a lease with a fraction as its token": (hello(leases=[held_lease(("tsk_1", 1.5))]), "leases.fencing_token"),
    "a lease with NaN as its token": (hello(leases=[held_lease(("tsk_1", math.nan))]), "leases.fencing_token"),
    "a lease with a token over 2^53": (hello(leases=[held_lease(("tsk_1", 2.0**54))]), "leases.fencing_token"),
    "a machine figure that is NaN": (hello(machine=Machine(cpu_percent=math.nan)), "machine"),
    "an infinite machine figure": (hello(machine=Machine(memory_mb=math.inf)), "machine"),
    "a machine context nested too deep": (hello(machine=Machine(context=nested_struct(31))), "machine"),
    "a machine context too large": (hello(machine=Machine(context=LARGE)), "machine"),
}

BAD_REQUESTS = {
    "a second hello": (HELLO, "hello"),
    "an empty message": (pb.ConnectRequest(), "message"),
    "a heartbeat with a token below 0": (heartbeat(leases=[held_lease(("tsk_1", -1))]), "leases.fencing_token"),
    "a heartbeat with an infinite token": (heartbeat(leases=[held_lease(("tsk_1", math.inf))]), "leases.fencing_token"),
    "a heartbeat with a machine figure that is NaN": (heartbeat(machine=Machine(cpu_percent=math.nan)), "machine"),
    "a heartbeat with a machine context too large": (heartbeat(machine=Machine(context=LARGE)), "machine"),
}

GARBAGE = {
    "invalid bytes": b"\xff\xff\xff",
    "text that is not UTF-8": b"\x0a\x03\x0a\x01\xff",
    "a truncated message": HELLO.SerializeToString()[:-2],
}


async def send_bytes(server, *messages):
    """Send messages as bytes, half-close, and read to the end."""
    call = server.channel.stream_stream(CONNECT, lambda data: data, pb.ConnectResponse.FromString)(iter(messages))
    async for _ in call:
        pass


@every_case("case", BAD_HELLOS)
async def test_an_invalid_first_message_is_refused_by_the_name_of_the_field(server, refused, case):
    message, field = BAD_HELLOS[case]
    refusal = await refused(send_bytes(server, message.SerializeToString()))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.code in ("bad_request", "too_large")
    assert refusal.message.startswith((f"{field}: ", f"{field}."))
    assert await server.host() is None
    assert not server.leftovers()


@pytest.mark.parametrize("case", BAD_REQUESTS)
async def test_a_later_invalid_message_ends_the_stream_and_its_leases_end_after_the_reconnect_grace(
    server, refused, case
):
    message, field = BAD_REQUESTS[case]
    stream = await server.connect(credit=1)
    await server.submit()
    task = await stream.task()
    await stream.report_one(task, started=True)
    await stream.call.write(message)
    refusal = await refused(stream.read_to_end())
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.message.startswith((f"{field}: ", f"{field}."))
    assert not server.leftovers()
    await server.advance(4)
    assert await server.live_leases() == [(task.task.task_id, "host", 1)]
    await server.advance(1.3)
    assert await server.live_leases() == []
    assert await server.state(task.task.task_id) == "queued"


@every_case("case", GARBAGE)
@every_case("before", [0, 1])
async def test_a_malformed_message_is_refused(server, refused, case, before):
    refusal = await refused(send_bytes(server, *[HELLO.SerializeToString()] * before, GARBAGE[case]))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert "not a valid message" in refusal.message
    assert not server.leftovers()


async def test_a_stream_that_ends_without_a_message_is_refused_for_the_missing_hello(server, refused):
    refusal = await refused(send_bytes(server))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.message == "hello: must come first"
    assert not server.leftovers()


async def test_a_bad_namespace_is_refused(server, refused):
    stream = server.stream(metadata=(("taskyard-namespace", "no spaces"),))
    assert (await refused(stream.read_to_end())).status is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_refused_hello_does_not_affect_an_existing_stream_of_the_host(server, refused):
    stream = await server.connect(credit=1)
    assert (await refused(send_bytes(server, hello(lease_secs=0).SerializeToString()))).code == "bad_request"
    await server.submit()
    assert await stream.report_one(await stream.task(), completed=True) == "done"


async def test_messages_before_an_invalid_one_are_applied_and_answered(server, refused):
    stream = await server.connect(credit=1)
    await server.submit()
    task = await stream.task()
    lease = held_lease(task)
    done = pb.Report(task_id=lease.task_id, fencing_token=1, completed=pb.TaskCompleted())
    await stream.send(reports=pb.Reports(reports=[done]))
    await stream.call.write(pb.ConnectRequest())
    await stream.receive("report_results")
    assert (await refused(stream.read_to_end())).message == "message: is required"
    assert await server.state(lease.task_id) == "done"


async def test_unknown_fields_are_ignored(server):
    unknown = b"\xfa\x3e\x01x"
    call = server.channel.stream_stream(CONNECT, lambda data: data, pb.ConnectResponse.FromString)(
        iter([HELLO.SerializeToString() + unknown])
    )
    assert (await call.read()).HasField("welcome")


async def test_a_stream_without_a_hello_ends_after_the_timeout(start_server, monkeypatch):
    monkeypatch.setattr("taskyard_server.services.host_connection.HELLO_TIMEOUT_SECS", 0.05)
    stream = (await start_server()).stream()
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await stream.call.read()
    assert (ended.value.code(), ended.value.details()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "hello: must come within 0.05 s",
    )
