"""WatchTasks (docs/rules.md, Watching): how a watch ends."""

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import batch_pb2, task_pb2
from taskyard_server.engine import event_feeds
from taskyard_server.engine.recent_events import Bounds
from tests.core.records import values
from tests.services.task_watches.watch_calls import (
    events,
    read,
    read_to_end,
    report_progress_many_times,
    started,
    submit,
    task_states,
)
from tests.waiting import LIMIT_SECS

State, Reason = task_pb2.Task, task_pb2.WatchEnd


# The end of all watched tasks


async def test_a_watch_of_tasks_ends_when_all_have_ended(api):
    ids = [await submit(api) for _ in range(2)]
    call = await started(api.watch(task_ids=ids, until_ended=True, state="cancelled"))
    for task_id in ids:
        await api.cancel(task_id)
    messages, status = await read_to_end(call)
    assert task_states(messages) == [(task_id, State.cancelled) for task_id in ids]
    assert messages[-1].end.reason == Reason.tasks_ended
    assert messages[-1].end.message
    assert status is grpc.StatusCode.OK


async def test_a_watch_of_a_batch_ends_when_all_its_tasks_have_ended(api):
    batch = await api.submit_batch(*(batch_pb2.BatchTask(action="click") for _ in range(3)))
    await api.cancel(batch.tasks[0].task_id)
    call = await started(api.watch(batch_id=batch.batch_id, until_ended=True))
    await api.batches.CancelBatch(batch_pb2.CancelBatchRequest(batch_id=batch.batch_id))
    messages, status = await read_to_end(call)
    assert len(task_states(messages)) == 2
    assert messages[-1].end.reason == Reason.tasks_ended
    assert status is grpc.StatusCode.OK


async def test_tasks_that_are_not_retained_have_ended(api):
    task_id = await submit(api)
    await api.cancel(task_id)
    for filters in ({"task_ids": [task_id, "tsk_unknown"]}, {"batch_id": "bat_unknown"}):
        messages, status = await read_to_end(api.watch(until_ended=True, include_current=True, **filters))
        assert messages[-1].end.reason == Reason.tasks_ended
        assert status is grpc.StatusCode.OK
        assert len(task_states(messages)) == ("task_ids" in filters)


async def test_a_resumed_watch_sends_missed_events_before_it_ends(api):
    task_id = await submit(api)
    call = api.watch(task_ids=[task_id], until_ended=True)
    cursor = (await read(call)).cursor
    call.cancel()
    await api.cancel(task_id)
    messages, _ = await read_to_end(api.watch(task_ids=[task_id], until_ended=True, cursor=cursor))
    assert task_states(messages) == [(task_id, State.cancelled)]
    assert messages[-1].end.reason == Reason.tasks_ended


# Slow watchers


async def test_a_watcher_that_does_not_read_expires_and_the_others_lose_no_event(start_api):
    api = await start_api(bounds=Bounds(max_events=200))
    slow = await started(api.watch())
    await report_progress_many_times(api, 5000, fast_call=await started(api.watch()))
    messages, status = await read_to_end(slow)
    assert messages[-1].end.reason == Reason.cursor_expired
    assert messages[-1].cursor
    assert status is grpc.StatusCode.OUT_OF_RANGE
    assert 0 < len(task_states(messages)) < 5000


async def test_a_watcher_that_pauses_catches_up_from_the_log(api):
    call = await started(api.watch())
    await report_progress_many_times(api, 5000)
    assert len(await events(call, 5003)) == 5003


# Shutdown, errors and cancellation


async def test_at_shutdown_each_watch_ends_with_its_reason_and_a_cursor(api, refused):
    calls = [await started(api.watch(**filters)) for filters in ({}, {"agent_id": "bob"}, {"task_ids": ["tsk_x"]})]
    task_id = await submit(api)
    await api.watches.close(LIMIT_SECS)
    for call in calls:
        messages, status = await read_to_end(call)
        assert messages[-1].end.reason == Reason.shutdown
        assert messages[-1].cursor
        assert status is grpc.StatusCode.UNAVAILABLE
        assert task_states(messages) == ([(task_id, State.queued)] if call is calls[0] else [])
    assert (await refused(api.watch().read())).code == "unavailable"


async def test_shutdown_does_not_wait_longer_than_allowed_for_a_watcher(api):
    call = await started(api.watch())
    await report_progress_many_times(api, 3000)
    # It reads nothing, and would be waited for for ever.
    await api.watches.close(0.05)
    call.cancel()


async def test_an_internal_error_ends_the_watch_without_showing_its_cause(api, monkeypatch, log_lines):
    call = await started(api.watch())

    def fail(_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(event_feeds.Watcher, "take", fail)
    await submit(api)
    (last,), status = await read_to_end(call)
    assert (last.end.reason, last.end.message) == (Reason.internal, "internal error")
    assert status is grpc.StatusCode.INTERNAL
    assert [line["event"] for line in log_lines if line["log_level"] == "error"] == ["internal_error"]


async def test_the_final_status_has_error_info(api):
    call = await started(api.watch())
    await api.watches.close(LIMIT_SECS)
    await read_to_end(call)
    trailers = dict(tuple(await call.trailing_metadata()))
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details[0].Unpack(info)
    assert info.reason == "UNAVAILABLE"


@pytest.mark.parametrize("is_blocked", [False, True])
async def test_a_cancelled_watch_is_freed(api, eventually, is_blocked):
    calls = [await started(api.watch(**filters)) for filters in ({}, {"agent_id": "ann"}, {"task_ids": ["tsk_x"]})]
    if is_blocked:
        await report_progress_many_times(api, 2000)
    for call in calls:
        call.cancel()
    (log,) = api.watches._logs._logs.values()

    async def leftovers():
        return [*api.watches._open, *filter(None, values(log._feeds))]

    await eventually(leftovers, lambda objects: not objects)
