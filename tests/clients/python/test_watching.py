"""A watch continues across broken streams, without gaps or repetitions. The server is scripted."""

import asyncio
import copy
from contextlib import aclosing, asynccontextmanager

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard import BadRequest, Client, ClientClosed, EventKind, TaskState, Unavailable
from taskyard.streams.watching import Watch
from taskyard.v1 import task_pb2 as pb
from taskyard.v1 import task_pb2_grpc
from taskyard_server.core import errors as refusals
from taskyard_server.interceptors.calls import CallInterceptor
from tests.cases import every_case
from tests.waiting import LIMIT_SECS

HANG = object()
"""In a script: send nothing more, and keep the stream open."""


class ScriptedTasks(task_pb2_grpc.TaskServiceServicer):
    """Plays one script per stream: messages to send, an error to raise, or `HANG`. `requests` are what watches sent."""

    def __init__(self, *scripts):
        self.scripts = list(scripts)
        self.requests = []
        self.ended = asyncio.Event()

    async def WatchTasks(self, request, context):  # noqa: N802
        del context
        self.requests.append(request)
        try:
            for step in self.scripts.pop(0) if self.scripts else [HANG]:
                if step is HANG:
                    await asyncio.Event().wait()
                if isinstance(step, Exception):
                    # A raised exception refers to its stream, and the script outlives the test.
                    raise copy.copy(step)
                yield step
        finally:
            self.ended.set()


@asynccontextmanager
async def watched(*scripts, patience=30.0):
    """A client of a server that plays these scripts, one per stream."""
    service = ScriptedTasks(*scripts)
    server = grpc.aio.server(interceptors=(CallInterceptor(),))
    task_pb2_grpc.add_TaskServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with Client(f"127.0.0.1:{port}", agent_id="ann", patience=patience) as client:
            yield client, service
    finally:
        await server.stop(None)


def event(task_id, kind="changed", state="running", **fields):
    task = pb.Task(task_id=task_id, agent_id="ann", action="click", state=pb.Task.State.Value(state))
    return pb.TaskEvent(kind=pb.TaskEvent.Kind.Value(kind), occurred_at=Timestamp(seconds=1_000), task=task, **fields)


def update(cursor, *task_ids, **fields):
    return pb.WatchTasksResponse(events=[event(task_id, **fields) for task_id in task_ids], cursor=cursor)


def bookmark(cursor):
    return pb.WatchTasksResponse(cursor=cursor, bookmark=True)


def end(reason, cursor="end"):
    return pb.WatchTasksResponse(
        cursor=cursor, end=pb.WatchEnd(reason=pb.WatchEnd.Reason.Value(reason), message=reason)
    )


DONE = end("tasks_ended")


async def watched_tasks(client, **filters):
    """The tasks of all events of a watch that ends."""
    async with asyncio.timeout(LIMIT_SECS), aclosing(client.watch(**filters)) as events:
        return [event.task.id async for event in events]


# Events


async def test_kinds_that_only_a_later_server_knows_are_left_out():
    unknown = event("b")
    unknown.kind = 99
    message = pb.WatchTasksResponse(events=[event("a"), unknown, event("c", "reprioritized")], cursor="1")
    async with watched([message, DONE]) as (client, _), aclosing(client.watch()) as events:
        assert [(each.task.id, each.kind) async for each in events] == [("a", "changed"), ("c", "reprioritized")]


async def test_an_event_says_what_happened_when_and_from_which_state():
    message = update("c1", "t1", previous_state=pb.Task.assigned)
    async with watched([message, DONE]) as (client, _):
        (each,) = [each async for each in client.watch()]
    assert (each.kind, each.task.id, each.task.state) == (EventKind.CHANGED, "t1", TaskState.RUNNING)
    assert (each.previous_state, each.at.timestamp(), each.cursor) == (TaskState.ASSIGNED, 1_000, "c1")


async def test_all_filters_reach_the_server():
    async with watched([DONE]) as (client, service):
        watch = client.watch(
            task_ids=["t1", "t2"],
            batch_id="b",
            agent_id="ann",
            target="t",
            states=[TaskState.DONE, "failed"],
            include_current=True,
            until_ended=True,
        )
        assert [each async for each in watch] == []
    (request,) = service.requests
    assert (list(request.task_ids), request.batch_id) == (["t1", "t2"], "b")
    assert (request.agent_id, request.target) == ("ann", "t")
    assert (request.state, request.include_current, request.until_ended) == ("done,failed", True, True)
    assert not request.HasField("cursor")


async def test_bookmarks_are_not_events():
    async with watched([bookmark("c1"), update("c2", "t1"), bookmark("c3"), DONE]) as (client, _):
        assert await watched_tasks(client) == ["t1"]


async def test_a_watch_begins_after_the_cursor_of_an_earlier_one():
    async with watched([DONE]) as (client, service):
        await watched_tasks(client, cursor="c7")
    assert service.requests[0].cursor == "c7"


async def test_only_the_last_event_of_a_message_has_the_messages_cursor():
    """A watch that resumes in the middle of a message may see events again, but misses none."""
    async with watched([update("c1", "t1", "t2"), update("c2", "t3", "t4"), DONE]) as (client, _):
        assert [each.cursor async for each in client.watch()] == [None, "c1", "c1", "c2"]


# Broken streams

ENDS = {
    "the server goes away": [refusals.Unavailable("gone")],
    "the server shuts down": [end("shutdown", "c1")],
    "the server fails": [end("internal", "c1"), refusals.Unavailable("gone")],
    "an internal error": [ZeroDivisionError()],
    "the stream just ends": [],
}


@every_case("why", ENDS)
async def test_a_watch_resumes_after_its_last_cursor(why):
    async with watched([update("c1", "t1", "t2"), *ENDS[why]], [update("c2", "t3"), DONE]) as (
        client,
        service,
    ):
        assert await watched_tasks(client, agent_id="ann", until_ended=True, task_ids=["t1"]) == ["t1", "t2", "t3"]
    first, second = service.requests
    assert not first.HasField("cursor")
    first.cursor = "c1"
    assert second == first


async def test_a_watch_resumes_after_a_bookmark():
    async with watched([update("c1", "t1"), bookmark("c2"), refusals.Unavailable("gone")], [DONE]) as (
        client,
        service,
    ):
        await watched_tasks(client)
    assert service.requests[1].cursor == "c2"


async def test_many_breaks_neither_lose_nor_repeat_events():
    scripts = [[update(f"c{number}", f"t{number}"), refusals.Unavailable("gone")] for number in range(6)]
    async with watched(*scripts, [DONE]) as (client, service):
        assert await watched_tasks(client) == [f"t{number}" for number in range(6)]
    assert [request.cursor for request in service.requests] == ["", *(f"c{number}" for number in range(6))]


async def test_a_quiet_stream_is_replaced():
    async with watched([update("c1", "t1"), HANG], [update("c2", "t2"), DONE]) as (client, service):
        watch = Watch(client._servers, client._desk._credentials, pb.WatchTasksRequest(), 30, set(), quiet_secs=0.5)
        async with asyncio.timeout(LIMIT_SECS):
            assert [event.task.id async for event in watch.events()] == ["t1", "t2"]
        await service.ended.wait()
    assert service.requests[1].cursor == "c1"


async def test_a_refused_watch_is_not_repeated():
    async with watched([refusals.BadRequest("state: no such")]) as (client, service):
        with pytest.raises(BadRequest, match="no such"):
            await watched_tasks(client, states=["no-such"])
    assert len(service.requests) == 1


async def test_an_outage_longer_than_the_patience_raises_unavailable():
    scripts = [[update("c1", "t1")], *[[refusals.Unavailable("gone")]] * 50]
    async with watched(*scripts, patience=0.3) as (client, service):
        events = client.watch()
        assert (await anext(events)).cursor == "c1"
        with pytest.raises(Unavailable, match="gone"):
            await anext(events)
    assert 2 < len(service.requests) < 20


async def test_a_server_that_keeps_shutting_down_is_an_outage():
    async with watched(*[[end("shutdown")]] * 50, patience=0.3) as (client, service):
        with pytest.raises(Unavailable, match="shutdown"):
            await watched_tasks(client)
    assert 2 < len(service.requests) < 20


# Expired cursors


class CursorExpired(refusals.Refusal):
    code = "cursor_expired"


@pytest.mark.parametrize(
    "how", [[CursorExpired("expired")], [end("cursor_expired")]], ids=["at the start", "on the way"]
)
async def test_after_an_expired_cursor_the_watch_begins_again_with_the_current_tasks(how):
    again = [update("d1", "t1", "t2", kind="current"), update("d2", "t3"), DONE]
    async with watched([update("c1", "t1"), refusals.Unavailable("gone")], how, again) as (client, service):
        events = [each async for each in client.watch(agent_id="ann")]
    assert [(each.kind, each.task.id) for each in events] == [
        ("changed", "t1"),
        ("current", "t1"),
        ("current", "t2"),
        ("changed", "t3"),
    ]
    assert [(request.cursor, request.include_current) for request in service.requests] == [
        ("", False),
        ("c1", False),
        ("", True),
    ]


# Current tasks


async def test_current_tasks_have_no_cursor():
    async with watched([update("c1", "t1", kind="current"), update("c2", "t2"), DONE]) as (client, _):
        assert [each.cursor async for each in client.watch(include_current=True)] == [None, "c2"]


async def test_after_a_break_among_the_current_tasks_only_the_others_are_shown():
    broken = [update("c1", "t1", "t2", kind="current"), refusals.Unavailable("gone")]
    again = [
        update("c5", "t1", kind="current"),
        update("c5", "t2", kind="current", state="done"),
        update("c5", "t3", kind="current"),
        update("c6", "t1"),
        DONE,
    ]
    async with watched(broken, again) as (client, service):
        events = [each async for each in client.watch(include_current=True)]
    assert [(each.task.id, each.task.state) for each in events] == [
        ("t1", "running"),
        ("t2", "running"),
        ("t2", "done"),
        ("t3", "running"),
        ("t1", "running"),
    ]
    assert [(request.cursor, request.include_current) for request in service.requests] == [("", True), ("", True)]


@pytest.mark.parametrize("first", [bookmark("c2"), update("c2", "t2")], ids=["a bookmark", "an event"])
async def test_after_the_current_tasks_a_watch_resumes_after_its_cursor(first):
    broken = [update("c1", "t1", kind="current"), first, refusals.Unavailable("gone")]
    async with watched(broken, [update("c3", "t3"), DONE]) as (client, service):
        assert (await watched_tasks(client, include_current=True))[-1] == "t3"
    assert (service.requests[1].cursor, service.requests[1].include_current) == ("c2", False)


# Ending a watch


async def test_closing_a_watch_ends_it_at_the_server():
    async with watched([update("c1", "t1"), HANG]) as (client, service):
        async with aclosing(client.watch()) as events:
            async for _ in events:
                break
        async with asyncio.timeout(LIMIT_SECS):
            await service.ended.wait()


async def test_cancelling_a_watch_ends_it_at_the_server():
    async with watched([update("c1", "t1"), HANG]) as (client, service):
        began = asyncio.Event()

        async def follow():
            async for _ in client.watch():
                began.set()

        following = asyncio.create_task(follow())
        await began.wait()
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        async with asyncio.timeout(LIMIT_SECS):
            await service.ended.wait()


async def test_a_watch_raises_client_closed_when_the_client_closes():
    async with watched([update("c1", "t1"), HANG]) as (client, _):
        events = client.watch()
        await anext(events)
        following = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            await following


# Ends and gaps


async def test_a_watch_that_ends_with_its_tasks_shows_each_end_once():
    # A failed task of a target can be cancelled, a failed one resumed, an ended one evicted: that is not its end.
    messages = [
        update("c1", "t1", state="failed"),
        update("c2", "t1", state="cancelled"),
        update("c3", "t2", state="running"),
        update("c4", "t1", kind="evicted", state="cancelled"),
        update("c5", "t2", state="done"),
        update("c6", "t1", state="queued"),
    ]
    async with watched([*messages, DONE]) as (client, _):
        events = [
            (each.task.id, each.task.state) async for each in client.watch(task_ids=["t1", "t2"], until_ended=True)
        ]
    assert events == [("t1", "failed"), ("t2", "running"), ("t2", "done")]


async def test_a_watch_without_end_shows_all_that_happens():
    messages = [update("c1", "t1", state="failed"), update("c2", "t1", state="cancelled"), HANG]
    async with watched(messages) as (client, _), aclosing(client.watch()) as events:
        states = [(await anext(events)).task.state for _ in range(2)]
    assert states == ["failed", "cancelled"]


async def test_a_gap_is_told_before_the_tasks_are_shown_again():
    gaps = []
    scripts = [
        [update("c1", "t1"), end("cursor_expired")],
        [update("c7", "t1", kind="current"), bookmark("c8"), HANG],
    ]
    async with watched(*scripts) as (client, service), aclosing(client.watch(on_gap=gaps.append)) as events:
        assert (await anext(events)).kind is EventKind.CHANGED
        assert gaps == []
        assert (await anext(events)).kind is EventKind.CURRENT
        assert gaps == ["cursor_expired"]
    assert service.requests[1].include_current


async def test_a_stream_that_is_resumed_has_no_gap():
    gaps = []
    scripts = [[update("c1", "t1"), end("shutdown")], [update("c2", "t2"), DONE]]
    async with watched(*scripts) as (client, _):
        assert [each.task.id async for each in client.watch(on_gap=gaps.append)] == ["t1", "t2"]
    assert gaps == []
