"""WatchTasks (docs/rules.md, Watching): the events that a watch is sent, in which order, and where it resumes."""

import asyncio

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1 import batch_pb2, task_pb2
from taskyard_server.core.task import Submission
from taskyard_server.engine.recent_events import Bounds
from tests import reporting
from tests.cases import every_case
from tests.live import live
from tests.services.task_watches.watch_calls import (
    events,
    read,
    read_to_end,
    started,
    submit,
    task_states,
)
from tests.waiting import LIMIT_SECS

Kind, State = task_pb2.TaskEvent, task_pb2.Task


# Events


async def test_every_transition_of_a_task_is_sent(start_api, clock):
    api = await start_api(clock=clock)
    call = await started(api.watch())
    task_id = await submit(api, params=Struct(fields={"secret": Value(string_value="x")}))
    (lease,) = await api.claim()
    await api.start(lease)
    await api.complete(lease, Value(string_value="fine"))
    transitions = await events(call, 4)
    assert {event.task.task_id for event in transitions} == {task_id}
    assert [event.kind for event in transitions] == [Kind.submitted, Kind.changed, Kind.changed, Kind.changed]
    assert [event.task.state for event in transitions] == [State.queued, State.assigned, State.running, State.done]
    assert not transitions[0].HasField("previous_state")
    assert [event.previous_state for event in transitions[1:]] == [State.queued, State.assigned, State.running]
    assert not any(event.task.HasField("params") for event in transitions)
    times = [event.occurred_at.ToNanoseconds() for event in transitions]
    assert times == sorted(times)
    assert times[0] / 1e9 == pytest.approx(clock.now, abs=1e-5)
    expected = await api.get(task_id)
    expected.ClearField("params")
    assert transitions[-1].task == expected


async def test_an_event_shows_the_task_at_the_time_of_the_event(api):
    call = await started(api.watch())
    # All of it happens in one turn of the event loop, before the first event is sent.
    task = await api.engine.tasks.submit("default", Submission("ann", "click"), show=live)
    (lease,) = await api.claim()
    await api.start(lease)
    await reporting.progress(
        api.engine, "default", "host", task.id, lease.token, task_pb2.Progress(message="1").SerializeToString()
    )
    await reporting.progress(
        api.engine, "default", "host", task.id, lease.token, task_pb2.Progress(message="2").SerializeToString()
    )
    await api.fail(lease, "broken")
    tasks = [event.task for event in await events(call, 6)]
    assert [task.state for task in tasks] == [State.queued, State.assigned] + [State.running] * 3 + [State.failed]
    assert [task.error for task in tasks] == [""] * 5 + ["broken"]
    assert [task.host_id for task in tasks] == [""] + ["host"] * 5
    assert [task.HasField("started_at") for task in tasks] == [False] * 2 + [True] * 4
    assert [task.HasField("completed_at") for task in tasks] == [False] * 5 + [True]
    assert [task.HasField("latency_ms") for task in tasks] == [False] * 5 + [True]
    assert [task.progress.message for task in tasks] == ["", "", "", "1", "2", "2"]


async def test_a_rejected_task_is_submitted_and_ended_at_once(start_api):
    api = await start_api(max_queue_size=1)
    call = await started(api.watch(state="rejected"))
    await submit(api)
    with pytest.raises(grpc.aio.AioRpcError):
        await api.submit()
    (event,) = await events(call, 1)
    assert (event.kind, event.task.state) == (Kind.submitted, State.rejected)
    assert event.task.error == "rejected: global queue full"
    assert event.task.HasField("completed_at")


async def test_an_evicted_task_is_sent_with_the_time_of_its_end(start_api):
    api = await start_api(max_retained_tasks=1)
    call = await started(api.watch())
    first = await submit(api)
    await api.cancel(first)
    await api.cancel(await submit(api))
    *_, last = await events(call, 5)
    assert (last.kind, last.task.task_id, last.task.state) == (Kind.evicted, first, State.cancelled)
    assert last.task.completed_at.ToNanoseconds() <= last.occurred_at.ToNanoseconds()


async def test_events_of_one_turn_of_the_loop_are_sent_in_one_message(api):
    call = await started(api.watch())
    submission = Submission("ann", "click")
    await asyncio.gather(*(api.engine.tasks.submit("default", submission, show=live) for _ in range(60)))
    assert len((await read(call)).events) == 60


# Filters


@pytest.mark.parametrize("filters", [{"agent_id": "bob"}, {"state": "cancelled"}, {"state": "cancelled, failed"}])
async def test_only_matching_events_are_sent(api, filters):
    call = await started(api.watch(**filters))
    await submit(api, agent_id="ann")
    task_id = await submit(api, agent_id="bob")
    await api.cancel(task_id)
    received = await events(call, 2 if "agent_id" in filters else 1)
    assert {event.task.task_id for event in received} == {task_id}


async def test_all_filters_must_match(api):
    tasks = [batch_pb2.BatchTask(action="click") for _ in range(2)]
    batch = await api.submit_batch(*tasks)
    first, second = (item.task_id for item in batch.tasks)
    other = await submit(api)
    matching_call = await started(
        api.watch(task_ids=[first, other], batch_id=batch.batch_id, agent_id="ann", state="cancelled")
    )
    other_call = await started(api.watch(task_ids=[first], agent_id="bob"))
    batch_call = await started(api.watch(batch_id=batch.batch_id))
    for task_id in (other, second, first):
        await api.cancel(task_id)
    assert [event.task.task_id for event in await events(matching_call, 1)] == [first]
    assert [event.task.task_id for event in await events(batch_call, 2)] == [second, first]
    await api.watches.close(LIMIT_SECS)
    assert task_states((await read_to_end(other_call))[0]) == []


async def test_events_of_other_namespaces_are_not_sent(api):
    call = await started(api.watch())
    other = await started(api.watch(metadata=(("taskyard-namespace", "other"),), include_current=True))
    here = await submit(api)
    there = await submit(api, metadata=(("taskyard-namespace", "other"),))
    await api.watches.close(LIMIT_SECS)
    assert task_states((await read_to_end(call))[0]) == [(here, State.queued)]
    assert task_states((await read_to_end(other))[0]) == [(there, State.queued)]


# Refused requests


@every_case(
    ("filters", "message"),
    [
        ({"state": "done,odd"}, 'state: unknown state "odd"'),
        ({"until_ended": True}, "untilEnded: "),
        ({"until_ended": True, "agent_id": "ann"}, "untilEnded: "),
        ({"include_current": True, "cursor": "x"}, "includeCurrent: "),
        ({"cursor": "x"}, "cursor: "),
        ({"task_ids": [str(number) for number in range(10_001)]}, "taskIds: "),
    ],
)
async def test_a_bad_request_names_its_field(api, refused, filters, message):
    refusal = await refused(api.watch(**filters).read())
    assert refusal.code == "bad_request"
    assert refusal.message.startswith(message)


@pytest.mark.memory_store  # With a store it lasts: test_restarts.py.
async def test_a_cursor_of_another_incarnation_is_out_of_range_and_410(start_api, refused, by_rest):
    cursor = (await read((await start_api()).watch())).cursor
    refusal = await refused((await start_api()).watch(cursor=cursor, metadata=by_rest).read())
    assert (refusal.status, refusal.code) == (grpc.StatusCode.OUT_OF_RANGE, "cursor_expired")
    assert refusal.trailers["x-http-status"] == "410"


# Current tasks


async def test_current_tasks_come_first_then_a_bookmark_with_the_first_cursor(api):
    ids = [await submit(api) for _ in range(3)]
    call = api.watch(include_current=True)
    current = await read(call)
    assert [event.task.task_id for event in current.events] == ids
    assert {event.kind for event in current.events} == {Kind.current}
    assert not current.HasField("cursor"), "resuming there would skip current tasks"
    bookmark = await read(call)
    assert bookmark.bookmark
    assert bookmark.cursor
    await api.cancel(ids[0])
    (event,) = await events(call, 1)
    assert (event.kind, event.task.task_id) == (Kind.changed, ids[0])


async def test_a_current_task_has_all_fields_but_its_params(api):
    task_id = await submit(api, params=Struct(fields={"x": Value(bool_value=True)}))
    (lease,) = await api.claim()
    await api.start(lease)
    await api.complete(lease, Value(string_value="fine"))
    (event,) = (await read(api.watch(task_ids=[task_id], include_current=True))).events
    expected = await api.get(task_id)
    expected.ClearField("params")
    assert event.task == expected
    assert not event.HasField("previous_state")


async def test_many_current_tasks_come_in_messages_of_limited_size(start_api):
    api = await start_api(max_queue_size=2000, max_per_agent=2000)
    for number in range(250):
        await api.engine.tasks.submit("default", Submission(f"a{number % 2}", "click"), show=live)
    for filters, count in (({}, 250), ({"agent_id": "a1"}, 125)):
        call, sizes = api.watch(include_current=True, **filters), []
        while not (message := await read(call)).bookmark:
            sizes.append(len(message.events))
        assert sum(sizes) == count
        assert max(sizes) <= 100


async def test_current_tasks_with_large_results_fit_into_messages(start_api):
    api = await start_api(max_queue_size=100, max_inflight=100, max_per_agent_inflight=100)
    for _ in range(30):
        await api.engine.tasks.submit("default", Submission("ann", "click"), show=live)
    for lease in await api.claim(30):
        await api.complete(lease, Value(string_value="x" * 250_000))
    call, seen = api.watch(include_current=True, state="done"), 0
    while not (message := await read(call)).bookmark:
        assert message.ByteSize() < 1_000_000
        seen += len(message.events)
    assert seen == 30


@pytest.mark.parametrize("by", ["task", "batch"])
async def test_only_matching_current_tasks_are_sent(api, by):
    batch = await api.submit_batch(*(batch_pb2.BatchTask(action="click") for _ in range(3)))
    first, second, third = (item.task_id for item in batch.tasks)
    await api.cancel(second)
    filters = {"batch_id": batch.batch_id} if by == "batch" else {"task_ids": [third, second, first, "tsk_gone"]}
    message = await read(api.watch(include_current=True, state="queued", **filters))
    assert sorted(event.task.task_id for event in message.events) == sorted([first, third])


# Resuming


async def test_a_resumed_watch_misses_nothing_and_repeats_nothing(api):
    call = await started(api.watch())
    ids, seen, cursor = [], [], None
    for round_ in range(5):
        ids += [await submit(api) for _ in range(3)]
        while len(seen) < len(ids) - round_ % 2:
            message = await read(call)
            seen += [event.task.task_id for event in message.events]
            cursor = message.cursor
        call.cancel()
        ids.append(await submit(api))
        call = await started(api.watch(cursor=cursor))
    seen += [event.task.task_id for event in await events(call, len(ids) - len(seen))]
    assert seen == ids


# Bookmarks


async def test_a_watch_without_events_gets_bookmarks_that_move_the_cursor(start_api):
    api = await start_api(bookmark_secs=0.02, bounds=Bounds(max_events=64))
    call = await started(api.watch(agent_id="bob"))
    for _ in range(200):
        task = await api.engine.tasks.submit("default", Submission("ann", "click"), show=live)
        await api.engine.tasks.cancel("default", task.id, show=live)
        await asyncio.sleep(0)
    seen = []
    # Those that were sent meanwhile may be read now.
    while len(seen) < 2 or seen[-1] != seen[-2]:
        message = await read(call)
        assert message.bookmark
        assert not message.events
        seen.append(message.cursor)
    call.cancel()
    # The first cursor has left the log by now, but not the one of the bookmark.
    await started(api.watch(agent_id="bob", cursor=message.cursor))
