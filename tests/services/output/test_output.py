"""The output of tasks over gRPC: hosts append under their leases, readers get the same whenever they come."""

import asyncio

import grpc
import pytest
from google.protobuf.struct_pb2 import Value

from taskyard.v1 import output_pb2 as pb
from taskyard.v1 import runtime_host_pb2
from tests.services.host_streams import held_lease, report

NOT_FOUND = grpc.StatusCode.NOT_FOUND


def text(*texts, channel=""):
    return [pb.NewChunk(channel=channel, text=each) for each in texts]


@pytest.fixture
async def stream(server):
    return await server.connect(credit=10)


async def say(stream, assignment, number, *chunks):
    """Say chunks on the stream of a host; how many of the lease are taken, or the code of the refusal."""
    lease = held_lease(assignment)
    said = pb.LeaseOutput(task_id=lease.task_id, fencing_token=lease.fencing_token, number=number, chunks=chunks)
    await stream.send(output=pb.Output(leases=[said]))
    (ack,) = (await stream.receive("output_acks")).acks
    return ack.error.code if ack.HasField("error") else ack.taken


async def read(server, task_id, after=0, *channels, follow=False):
    """The chunks that a reader gets, and the messages in which they came."""
    call = server.output.ReadOutput(
        pb.ReadOutputRequest(task_id=task_id, after=after, channels=channels, follow=follow)
    )
    return [message async for message in call]


async def to_end(call):
    """The messages that are left of a call."""
    messages = []
    while (message := await call.read()) is not grpc.aio.EOF:
        messages.append(message)
    return messages


def texts(messages):
    return [chunk.text for message in messages for chunk in message.chunks]


async def test_chunks_are_numbered_over_all_attempts_and_say_when_and_in_which(start_server, clock):
    server = await start_server(clock)
    stream = await server.connect(credit=10)
    task_id = await server.submit(retry_policy={"max_attempts": 3, "first_delay_ms": 0})
    first = await stream.task()
    assert await say(stream, first, 1, *text("a", "b")) == 2
    assert await stream.report_one(first, failed="again") == "pending"
    await server.advance(1)
    second = await stream.task()
    assert await say(stream, second, 1, pb.NewChunk(channel="log", json=Value(number_value=1))) == 1
    assert await say(stream, second, 2, pb.NewChunk(channel="x/1", binary=b"\xff")) == 2
    (message,) = await read(server, task_id)
    assert [(c.sequence, c.channel, c.WhichOneof("data"), c.attempt) for c in message.chunks] == [
        (1, "output", "text", 1),
        (2, "output", "text", 1),
        (3, "log", "json", 2),
        (4, "x/1", "binary", 2),
    ]
    assert all(chunk.HasField("taken_at") for chunk in message.chunks)
    assert (message.next_after, message.first_sequence, message.dropped_bytes) == (4, 1, 0)


async def test_what_is_said_again_is_taken_once_and_a_gap_is_refused(server, stream):
    task_id = await server.submit()
    task = await stream.task()
    assert await say(stream, task, 1, *text("a", "b")) == 2
    assert await say(stream, task, 1, *text("a", "b")) == 2
    assert await say(stream, task, 2, *text("b", "c")) == 3
    assert await say(stream, task, 5, *text("e")) == "bad_request"
    assert texts(await read(server, task_id)) == ["a", "b", "c"]


async def test_chunks_under_a_lease_that_has_ended_are_refused(server, stream):
    task_id = await server.submit()
    task = await stream.task()
    assert await say(stream, task, 1, *text("a")) == 1
    await stream.report_one(task, completed=True)
    assert await say(stream, task, 2, *text("b")) == "lease_lost"
    assert await say(stream, ("tsk_none", 1), 1, *text("b")) == "not_found"
    assert texts(await read(server, task_id)) == ["a"]


async def test_a_follower_gets_what_was_what_comes_and_the_end(server, stream):
    task_id = await server.submit()
    task = await stream.task()
    await say(stream, task, 1, *text("a"))
    call = server.output.ReadOutput(pb.ReadOutputRequest(task_id=task_id, follow=True))
    assert texts([await call.read()]) == ["a"]
    await say(stream, task, 2, *text("b"))
    assert texts([await call.read()]) == ["b"]
    await stream.send(
        output=pb.Output(
            leases=[pb.LeaseOutput(task_id=task_id, fencing_token=task.lease.fencing_token, number=3, chunks=text("c"))]
        )
    )
    await stream.send(reports=runtime_host_pb2.Reports(reports=[report(task, completed=True)]))
    assert texts(await to_end(call)) == ["c"]
    assert await call.code() == grpc.StatusCode.OK


async def test_readers_that_come_at_any_time_get_the_same(server, stream):
    task_id = await server.submit()
    at_once = asyncio.create_task(read(server, task_id, follow=True))
    task = await stream.task()
    for number in range(1, 200):
        await say(stream, task, number, *text(f"{number},"))
    in_the_middle = asyncio.create_task(read(server, task_id, 50, follow=True))
    for number in range(200, 300):
        await say(stream, task, number, *text(f"{number},"))
    await stream.report_one(task, completed=True)
    said = [f"{number}," for number in range(1, 300)]
    assert texts(await at_once) == said
    assert texts(await in_the_middle) == said[50:]
    assert texts(await read(server, task_id)) == said
    assert texts(await read(server, task_id, 299)) == []


@pytest.mark.parametrize(("text_bytes", "count"), [(50_000, 60), (40, 40_000)])
async def test_output_of_several_parts_is_read_to_its_end(server, stream, text_bytes, count):
    task_id = await server.submit()
    task = await stream.task()
    at_once = 10 if text_bytes > 1_000 else 1_000
    for number in range(1, count, at_once):
        assert await say(stream, task, number, *text(*["x" * text_bytes] * at_once)) == number + at_once - 1
    await stream.report_one(task, completed=True)
    for follow in (True, False):
        messages = await read(server, task_id, follow=follow)
        assert [chunk.sequence for message in messages for chunk in message.chunks] == list(range(1, count + 1))
