"""Connect, what must not be said: each breach ends the stream with one clear INVALID_ARGUMENT and leaves nothing."""

import math

import grpc
import pytest
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2 import Machine
from tests.services.host_streams import CONNECT, named

HELLO = pb.ConnectRequest(hello=pb.Hello(host_id="host", instance="i"))


def hello(**fields):
    return pb.ConnectRequest(hello=pb.Hello(**{"host_id": "host", "instance": "i", **fields}))


def beat(**fields):
    return pb.ConnectRequest(heartbeat=pb.Heartbeat(**fields))


def deep(levels):
    value = Value(number_value=1)
    for _ in range(levels):
        value = Value(list_value=ListValue(values=[value]))
    return Struct(fields={"x": value})


LONG = "x" * 1_025
LARGE = Struct(fields={"x": Value(string_value="x" * 262_144)})

OPENINGS = {
    "credit before hello": (pb.ConnectRequest(credit=pb.Credit(count=1)), "hello"),
    "a heartbeat before hello": (beat(sequence=1), "hello"),
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
    "a machine that is no number": (hello(machine=Machine(cpu_percent=math.nan)), "machine"),
    "a machine without end": (hello(machine=Machine(memory_mb=math.inf)), "machine"),
    "a machine too deep": (hello(machine=Machine(context=deep(31))), "machine"),
    "a machine too large": (hello(machine=Machine(context=LARGE)), "machine"),
}

LATER = {
    "a second hello": (HELLO, "hello"),
    "an empty message": (pb.ConnectRequest(), "message"),
    "a heartbeat whose machine is no number": (beat(machine=Machine(cpu_percent=math.nan)), "machine"),
    "a heartbeat whose machine is too large": (beat(machine=Machine(context=LARGE)), "machine"),
}

GARBAGE = {
    "bytes that are no message": b"\xff\xff\xff",
    "text that is not UTF-8": b"\x0a\x03\x0a\x01\xff",
    "a message that is cut short": HELLO.SerializeToString()[:-2],
}


async def raw(yard, *messages):
    """Messages as bytes, and the half-close after them."""
    call = yard.channel.stream_stream(CONNECT, lambda data: data, pb.ConnectResponse.FromString)(iter(messages))
    async for _ in call:
        pass


@pytest.mark.parametrize("what", OPENINGS)
async def test_a_bad_opening_is_refused_by_the_name_of_the_field(yard, refused, what):
    message, field = OPENINGS[what]
    refusal = await refused(raw(yard, message.SerializeToString()))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.code in ("bad_request", "too_large")
    assert refusal.message.startswith(f"{field}: ") or refusal.message.startswith(f"{field}.")
    assert await yard.host() is None
    assert not yard.leftovers()


@pytest.mark.parametrize("what", LATER)
async def test_a_breach_later_on_ends_the_stream_and_its_leases_end_as_after_a_break(yard, refused, what):
    message, field = LATER[what]
    stream = await yard.connect(credit=1)
    await yard.submit()
    task = await stream.task()
    await stream.told(task, started=True)
    await stream.call.write(message)
    refusal = await refused(stream.end())
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.message.startswith(f"{field}: ")
    assert not yard.leftovers()
    await yard.pass_time(4)
    assert await yard.leased() == [(task.task.task_id, "host", 1)]
    await yard.pass_time(1.3)
    assert await yard.leased() == []
    assert await yard.state(task.task.task_id) == "queued"


@pytest.mark.parametrize("what", GARBAGE)
@pytest.mark.parametrize("before", [0, 1])
async def test_garbage_is_refused_as_such(yard, refused, what, before):
    refusal = await refused(raw(yard, *[HELLO.SerializeToString()] * before, GARBAGE[what]))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert "not a valid message" in refusal.message
    assert not yard.leftovers()


async def test_a_stream_that_ends_before_it_says_anything_is_told_what_was_missing(yard, refused):
    refusal = await refused(raw(yard))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.message == "hello: must come first"
    assert not yard.leftovers()


async def test_a_bad_namespace_is_refused(yard, refused):
    stream = yard.stream(metadata=(("taskyard-namespace", "no spaces"),))
    assert (await refused(stream.end())).status is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_refused_opening_does_not_disturb_the_stream_that_the_host_has(yard, refused):
    stream = await yard.connect(credit=1)
    assert (await refused(raw(yard, hello(lease_secs=0).SerializeToString()))).code == "bad_request"
    await yard.submit()
    assert await stream.told(await stream.task(), completed=True) == "done"


async def test_what_was_said_before_a_breach_holds_and_is_answered(yard, refused):
    stream = await yard.connect(credit=1)
    await yard.submit()
    task = await stream.task()
    about = named(task)
    done = pb.Report(task_id=about.task_id, fencing_token=1, completed=pb.TaskCompleted())
    await stream.say(reports=pb.Reports(reports=[done]))
    await stream.call.write(pb.ConnectRequest())
    await stream.hear("report_results")
    assert (await refused(stream.end())).message == "message: is required"
    assert await yard.state(about.task_id) == "done"


async def test_fields_that_the_server_does_not_know_are_passed_over(yard):
    unknown = b"\xfa\x3e\x01x"
    call = yard.channel.stream_stream(CONNECT, lambda data: data, pb.ConnectResponse.FromString)(
        iter([HELLO.SerializeToString() + unknown])
    )
    assert (await call.read()).HasField("welcome")


async def test_a_stream_on_which_nothing_is_said_ends(open_yard, monkeypatch):
    monkeypatch.setattr("taskyard_server.services.host_connection.HELLO_TIMEOUT_SECS", 0.05)
    stream = (await open_yard()).stream()
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await stream.call.read()
    assert (ended.value.code(), ended.value.details()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "hello: must come within 0.05 s",
    )
