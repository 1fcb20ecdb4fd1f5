"""WatchTasks: what a watcher is sent, in which order, where it resumes, and how a watch ends (DESIGN, Watching)."""

import asyncio
import time

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct, Value
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import batch_pb2, task_pb2
from taskyard_server.core.task import Submission
from taskyard_server.engine import event_feeds as watchers
from taskyard_server.engine.event_log import Bounds
from tests import reporting
from tests.core.records import values

Kind, State, Reason = task_pb2.TaskEvent, task_pb2.Task, task_pb2.WatchEnd
SECS = 10


async def begun(call):
    """The call, once its watch has begun: the bookmark that says so is read."""
    assert (await read(call)).bookmark
    return call


async def read(call):
    """The next message, or None after the last one."""
    message = await asyncio.wait_for(call.read(), SECS)
    return None if message is grpc.aio.EOF else message


async def events(call, count):
    """The next events, exactly so many."""
    got = []
    while len(got) < count:
        got += (await read(call)).events
    assert len(got) == count
    return got


async def rest_of(call):
    """All messages that are left, and the status with which the stream ended."""
    messages = []
    try:
        while (message := await read(call)) is not None:
            messages.append(message)
    except grpc.aio.AioRpcError as error:
        return messages, error.code()
    return messages, await call.code()


def told(messages):
    return [(event.task.task_id, event.task.state) for message in messages for event in message.events]


async def submitted(api, **fields):
    return (await api.submit(**fields)).task_id


# What an event tells.


async def test_the_life_of_a_task_is_told_step_by_step(api):
    call = await begun(api.watch())
    task_id = await submitted(api, params=Struct(fields={"secret": Value(string_value="x")}))
    (lease,) = await api.claim()
    await api.start(lease)
    await api.complete(lease, Value(string_value="fine"))
    life = await events(call, 4)
    assert {event.task.task_id for event in life} == {task_id}
    assert [event.kind for event in life] == [Kind.submitted, Kind.changed, Kind.changed, Kind.changed]
    assert [event.task.state for event in life] == [State.queued, State.assigned, State.running, State.done]
    assert not life[0].HasField("previous_state")
    assert [event.previous_state for event in life[1:]] == [State.queued, State.assigned, State.running]
    assert not any(event.task.HasField("params") for event in life)
    times = [event.occurred_at.ToNanoseconds() for event in life]
    assert times == sorted(times)
    assert abs(times[0] / 1e9 - time.time()) < 60
    whole = await api.get(task_id)
    whole.ClearField("params")
    assert life[-1].task == whole


async def test_an_event_shows_the_task_as_it_was_then_whatever_became_of_it(api):
    call = await begun(api.watch())
    # All in one turn of the loop: when the first event is sent, everything has happened.
    task = await api.engine.tasks.submit("default", Submission("ann", "click"))
    (lease,) = await api.claim()
    await api.start(lease)
    await reporting.progress(
        api.engine, "default", "host", task.id, lease.token, task_pb2.Progress(message="1").SerializeToString()
    )
    await reporting.progress(
        api.engine, "default", "host", task.id, lease.token, task_pb2.Progress(message="2").SerializeToString()
    )
    await api.fail(lease, "broken")
    told = [event.task for event in await events(call, 6)]
    assert [task.state for task in told] == [State.queued, State.assigned] + [State.running] * 3 + [State.failed]
    assert [task.error for task in told] == [""] * 5 + ["broken"]
    assert [task.host_id for task in told] == [""] + ["host"] * 5
    assert [task.HasField("started_at") for task in told] == [False] * 2 + [True] * 4
    assert [task.HasField("completed_at") for task in told] == [False] * 5 + [True]
    assert [task.HasField("latency_ms") for task in told] == [False] * 5 + [True]
    assert [task.progress.message for task in told] == ["", "", "", "1", "2", "2"]


async def test_a_rejected_task_is_submitted_and_ended_at_once(start_api):
    api = await start_api(max_queue_size=1)
    call = await begun(api.watch(state="rejected"))
    await submitted(api)
    with pytest.raises(grpc.aio.AioRpcError):
        await api.submit()
    (event,) = await events(call, 1)
    assert (event.kind, event.task.state) == (Kind.submitted, State.rejected)
    assert event.task.error == "rejected: global queue full"
    assert event.task.HasField("completed_at")


async def test_a_task_that_is_no_longer_retained_is_told_with_the_time_of_its_end(start_api):
    api = await start_api(max_retained_tasks=1)
    call = await begun(api.watch())
    first = await submitted(api)
    await api.cancel(first)
    await api.cancel(await submitted(api))
    *_, last = await events(call, 5)
    assert (last.kind, last.task.task_id, last.task.state) == (Kind.evicted, first, State.cancelled)
    assert last.task.completed_at.ToNanoseconds() <= last.occurred_at.ToNanoseconds()


async def test_events_of_one_turn_come_in_one_message(api):
    call = await begun(api.watch())
    for _ in range(60):
        await api.engine.tasks.submit("default", Submission("ann", "click"))
    assert len((await read(call)).events) == 60


# Filters.


@pytest.mark.parametrize("wish", [{"agent_id": "bob"}, {"state": "cancelled"}, {"state": "cancelled, failed"}])
async def test_only_what_matches_is_told(api, wish):
    call = await begun(api.watch(**wish))
    await submitted(api, agent_id="ann")
    task_id = await submitted(api, agent_id="bob")
    await api.cancel(task_id)
    got = await events(call, 2 if "agent_id" in wish else 1)
    assert {event.task.task_id for event in got} == {task_id}


async def test_all_filters_must_match(api):
    tasks = [batch_pb2.BatchTask(action="click") for _ in range(2)]
    batch = await api.submit_batch(*tasks)
    first, second = (item.task_id for item in batch.tasks)
    other = await submitted(api)
    fitting = await begun(
        api.watch(task_ids=[first, other], batch_id=batch.batch_id, agent_id="ann", state="cancelled")
    )
    wrong = await begun(api.watch(task_ids=[first], agent_id="bob"))
    whole = await begun(api.watch(batch_id=batch.batch_id))
    for task_id in (other, second, first):
        await api.cancel(task_id)
    assert [event.task.task_id for event in await events(fitting, 1)] == [first]
    assert [event.task.task_id for event in await events(whole, 2)] == [second, first]
    await api.watches.close(SECS)
    assert told((await rest_of(wrong))[0]) == []


async def test_other_namespaces_never_appear(api):
    call = await begun(api.watch())
    other = await begun(api.watch(metadata=(("taskyard-namespace", "other"),), include_current=True))
    here = await submitted(api)
    there = await submitted(api, metadata=(("taskyard-namespace", "other"),))
    await api.watches.close(SECS)
    assert told((await rest_of(call))[0]) == [(here, State.queued)]
    assert told((await rest_of(other))[0]) == [(there, State.queued)]


# What is refused, before anything is sent.


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"state": "done,odd"}, 'state: unknown state "odd"'),
        ({"until_ended": True}, "untilEnded: "),
        ({"until_ended": True, "agent_id": "ann"}, "untilEnded: "),
        ({"include_current": True, "cursor": "x"}, "includeCurrent: "),
        ({"cursor": "x"}, "cursor: "),
        ({"task_ids": [str(number) for number in range(10_001)]}, "taskIds: "),
    ],
)
async def test_a_bad_request_names_its_field(api, refused, wish, message):
    told = await refused(api.watch(**wish).read())
    assert told.code == "bad_request"
    assert told.message.startswith(message)


async def test_a_cursor_of_another_incarnation_is_out_of_range_and_410(start_api, refused, by_rest):
    cursor = (await read((await start_api()).watch())).cursor
    told = await refused((await start_api()).watch(cursor=cursor, metadata=by_rest).read())
    assert (told.status, told.code) == (grpc.StatusCode.OUT_OF_RANGE, "cursor_expired")
    assert told.trailers["x-http-status"] == "410"


# The tasks as they stand.


async def test_the_current_tasks_come_first_then_a_bookmark_with_the_first_cursor(api):
    ids = [await submitted(api) for _ in range(3)]
    call = api.watch(include_current=True)
    current = await read(call)
    assert [event.task.task_id for event in current.events] == ids
    assert {event.kind for event in current.events} == {Kind.current}
    assert not current.HasField("cursor"), "whoever resumed there would miss what was not told yet"
    bookmark = await read(call)
    assert bookmark.bookmark
    assert bookmark.cursor
    await api.cancel(ids[0])
    (event,) = await events(call, 1)
    assert (event.kind, event.task.task_id) == (Kind.changed, ids[0])


async def test_a_current_task_has_all_but_its_params(api):
    task_id = await submitted(api, params=Struct(fields={"x": Value(bool_value=True)}))
    (lease,) = await api.claim()
    await api.start(lease)
    await api.complete(lease, Value(string_value="fine"))
    (event,) = (await read(api.watch(task_ids=[task_id], include_current=True))).events
    whole = await api.get(task_id)
    whole.ClearField("params")
    assert event.task == whole
    assert not event.HasField("previous_state")


async def test_many_current_tasks_come_in_messages_of_bounded_size(start_api):
    api = await start_api(max_queue_size=2000, max_per_agent=2000)
    for number in range(250):
        await api.engine.tasks.submit("default", Submission(f"a{number % 2}", "click"))
    for wish, count in (({}, 250), ({"agent_id": "a1"}, 125)):
        call, sizes = api.watch(include_current=True, **wish), []
        while not (message := await read(call)).bookmark:
            sizes.append(len(message.events))
        assert sum(sizes) == count
        assert max(sizes) <= 100


async def test_current_tasks_with_large_results_fit_into_messages(start_api):
    api = await start_api(max_queue_size=100, max_inflight=100, max_per_agent_inflight=100)
    for _ in range(30):
        await api.engine.tasks.submit("default", Submission("ann", "click"))
    for lease in await api.claim(30):
        await api.complete(lease, Value(string_value="x" * 250_000))
    call, seen = api.watch(include_current=True, state="done"), 0
    while not (message := await read(call)).bookmark:
        assert message.ByteSize() < 1_000_000
        seen += len(message.events)
    assert seen == 30


@pytest.mark.parametrize("by", ["task", "batch"])
async def test_of_current_tasks_too_only_what_matches_is_told(api, by):
    batch = await api.submit_batch(*(batch_pb2.BatchTask(action="click") for _ in range(3)))
    first, second, third = (item.task_id for item in batch.tasks)
    await api.cancel(second)
    wish = {"batch_id": batch.batch_id} if by == "batch" else {"task_ids": [third, second, first, "tsk_gone"]}
    message = await read(api.watch(include_current=True, state="queued", **wish))
    assert sorted(event.task.task_id for event in message.events) == sorted([first, third])


# Resuming.


async def test_a_resumed_watch_misses_nothing_and_repeats_nothing(api):
    call = await begun(api.watch())
    ids, seen, cursor = [], [], None
    for round_ in range(5):
        ids += [await submitted(api) for _ in range(3)]
        while len(seen) < len(ids) - round_ % 2:
            message = await read(call)
            seen += [event.task.task_id for event in message.events]
            cursor = message.cursor
        call.cancel()
        ids.append(await submitted(api))
        call = await begun(api.watch(cursor=cursor))
    seen += [event.task.task_id for event in await events(call, len(ids) - len(seen))]
    assert seen == ids


# Bookmarks.


async def test_a_quiet_watch_gets_bookmarks_that_move_the_cursor(start_api):
    api = await start_api(bookmark_secs=0.02, bounds=Bounds(max_events=64))
    call = await begun(api.watch(agent_id="bob"))
    for _ in range(200):
        task = await api.engine.tasks.submit("default", Submission("ann", "click"))
        await api.engine.tasks.cancel("default", task.id)
        await asyncio.sleep(0)
    for _ in range(2):
        message = await read(call)
        assert message.bookmark
        assert not message.events
    call.cancel()
    # The cursor with which it began has left the log by now; this one has not.
    await begun(api.watch(agent_id="bob", cursor=message.cursor))


# Until all have ended.


async def test_the_watch_ends_when_all_its_tasks_have(api):
    ids = [await submitted(api) for _ in range(2)]
    call = await begun(api.watch(task_ids=ids, until_ended=True, state="cancelled"))
    for task_id in ids:
        await api.cancel(task_id)
    messages, status = await rest_of(call)
    assert told(messages) == [(task_id, State.cancelled) for task_id in ids]
    assert messages[-1].end.reason == Reason.tasks_ended
    assert messages[-1].end.message
    assert status is grpc.StatusCode.OK


async def test_the_watch_of_a_batch_ends_when_all_its_tasks_have(api):
    batch = await api.submit_batch(*(batch_pb2.BatchTask(action="click") for _ in range(3)))
    await api.cancel(batch.tasks[0].task_id)
    call = await begun(api.watch(batch_id=batch.batch_id, until_ended=True))
    await api.batches.CancelBatch(batch_pb2.CancelBatchRequest(batch_id=batch.batch_id))
    messages, status = await rest_of(call)
    assert len(told(messages)) == 2
    assert messages[-1].end.reason == Reason.tasks_ended
    assert status is grpc.StatusCode.OK


async def test_what_is_not_retained_has_ended(api):
    task_id = await submitted(api)
    await api.cancel(task_id)
    for wish in ({"task_ids": [task_id, "tsk_unknown"]}, {"batch_id": "bat_unknown"}):
        messages, status = await rest_of(api.watch(until_ended=True, include_current=True, **wish))
        assert messages[-1].end.reason == Reason.tasks_ended
        assert status is grpc.StatusCode.OK
        assert len(told(messages)) == ("task_ids" in wish)


async def test_a_resumed_watch_tells_what_it_missed_before_it_ends(api):
    task_id = await submitted(api)
    call = api.watch(task_ids=[task_id], until_ended=True)
    cursor = (await read(call)).cursor
    call.cancel()
    await api.cancel(task_id)
    messages, _ = await rest_of(api.watch(task_ids=[task_id], until_ended=True, cursor=cursor))
    assert told(messages) == [(task_id, State.cancelled)]
    assert messages[-1].end.reason == Reason.tasks_ended


# Slow watchers.


async def flood(api, count, quick=None):
    """So many events of a kilobyte each, after three others. `quick` reads all of them as they come."""
    await submitted(api)
    (lease,) = await api.claim()
    await api.start(lease)
    if quick is not None:
        await events(quick, 3)
    progress = task_pb2.Progress(message="x" * 1000).SerializeToString()
    for number in range(count):
        await reporting.progress(api.engine, "default", "host", lease.task.id, lease.token, progress)
        if quick is None:
            await asyncio.sleep(0)
        elif number % 50 == 49:
            await events(quick, 50)


async def test_a_watcher_that_does_not_read_expires_and_the_others_lose_nothing(start_api):
    api = await start_api(bounds=Bounds(max_events=200))
    slow = await begun(api.watch())
    await flood(api, 5000, quick=await begun(api.watch()))
    messages, status = await rest_of(slow)
    assert messages[-1].end.reason == Reason.cursor_expired
    assert messages[-1].cursor
    assert status is grpc.StatusCode.OUT_OF_RANGE
    assert 0 < len(told(messages)) < 5000


async def test_a_watcher_that_pauses_catches_up_from_the_log(api):
    call = await begun(api.watch())
    await flood(api, 5000)
    assert len(await events(call, 5003)) == 5003


# The end.


async def test_when_the_server_shuts_down_each_watch_says_so_and_where_to_resume(api, refused):
    calls = [await begun(api.watch(**wish)) for wish in ({}, {"agent_id": "bob"}, {"task_ids": ["tsk_x"]})]
    task_id = await submitted(api)
    await api.watches.close(SECS)
    for call in calls:
        messages, status = await rest_of(call)
        assert messages[-1].end.reason == Reason.shutdown
        assert messages[-1].cursor
        assert status is grpc.StatusCode.UNAVAILABLE
        assert told(messages) == ([(task_id, State.queued)] if call is calls[0] else [])
    assert (await refused(api.watch().read())).code == "unavailable"


async def test_shutting_down_waits_for_no_watcher_longer_than_allowed(api):
    call = await begun(api.watch())
    await flood(api, 3000)
    begin = time.monotonic()
    await api.watches.close(0.05)
    assert time.monotonic() - begin < 5
    call.cancel()


async def test_a_fault_of_the_server_ends_the_watch_as_internal_and_leaks_nothing(api, monkeypatch, log_lines):
    call = await begun(api.watch())

    def broken(_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(watchers.Watcher, "take", broken)
    await submitted(api)
    (last,), status = await rest_of(call)
    assert (last.end.reason, last.end.message) == (Reason.internal, "internal error")
    assert status is grpc.StatusCode.INTERNAL
    assert [line["event"] for line in log_lines if line["log_level"] == "error"] == ["internal_error"]


async def test_the_status_at_the_end_carries_its_error_info(api):
    call = await begun(api.watch())
    await api.watches.close(SECS)
    await rest_of(call)
    trailers = dict(tuple(await call.trailing_metadata()))
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details[0].Unpack(info)
    assert info.reason == "UNAVAILABLE"


@pytest.mark.parametrize("is_blocked", [False, True])
async def test_a_watcher_that_goes_away_leaves_nothing_behind(api, eventually, is_blocked):
    calls = [await begun(api.watch(**wish)) for wish in ({}, {"agent_id": "ann"}, {"task_ids": ["tsk_x"]})]
    if is_blocked:
        await flood(api, 2000)
    for call in calls:
        call.cancel()
    (log,) = api.watches._logs._logs.values()

    async def left():
        return [*api.watches._open, *filter(None, values(log._feeds))]

    await eventually(left, lambda what: not what)
