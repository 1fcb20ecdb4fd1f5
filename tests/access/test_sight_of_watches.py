"""Watches by an agent's credential hold no event of others' tasks (docs/operate/security.md, Agents)."""

from typing import Any

import grpc
import pytest

from taskyard.v1 import batch_pb2, task_pb2
from tests.access.sight_yard import Stubs, stubs
from tests.access.yards import AGENT, OTHER_AGENT, Yard


def submit(caller: Stubs, agent: str = AGENT, **fields: Any) -> str:
    request = task_pb2.SubmitTaskRequest(agent_id=agent, action="click", **fields)
    return str(caller.call(caller.tasks.SubmitTask, request).task_id)


def watch(caller: Stubs, **fields: Any) -> Any:
    return caller.call(caller.tasks.WatchTasks, task_pb2.WatchTasksRequest(**fields))


def begin(caller: Stubs, **fields: Any) -> Any:
    """A watch that is at its beginning."""
    stream = watch(caller, **fields)
    assert next(stream).bookmark
    return stream


def events_until(stream: Any, task_id: str) -> list[task_pb2.TaskEvent]:
    """What a watch tells up to the first event of this task."""
    events: list[task_pb2.TaskEvent] = []
    for message in stream:
        events += message.events
        if any(event.task.task_id == task_id for event in message.events):
            return events
    raise AssertionError("the watch ended before")


@pytest.mark.parametrize("criteria", [{}, {"target": "t"}, {"state": "queued"}])
def test_a_watch_holds_the_events_of_own_tasks_alone(ann: Stubs, bob: Stubs, criteria: dict[str, Any]) -> None:
    stream = begin(bob, **criteria)
    submit(ann, target="t")
    own = submit(bob, OTHER_AGENT, target="t")
    assert [event.task.agent_id for event in events_until(stream, own)] == [OTHER_AGENT]
    stream.cancel()


def test_current_tasks_are_own_ones_alone(ann: Stubs, bob: Stubs) -> None:
    submit(ann)
    own = submit(bob, OTHER_AGENT)
    stream = watch(bob, include_current=True)
    assert {event.task.agent_id for event in events_until(stream, own)} == {OTHER_AGENT}
    stream.cancel()


@pytest.mark.parametrize("include_current", [True, False])
def test_a_watch_until_the_end_of_anothers_task_ends_as_for_one_that_never_was(
    ann: Stubs, bob: Stubs, include_current: bool
) -> None:
    task_id = submit(ann)
    batch = batch_pb2.SubmitBatchRequest(agent_id=AGENT, tasks=[batch_pb2.BatchTask(action="click")])
    batch_id = ann.call(ann.batches.SubmitBatch, batch).batch_id

    def told(**selected: Any) -> list[tuple[Any, ...]]:
        messages = watch(bob, until_ended=True, include_current=include_current, **selected)
        return [(list(each.events), each.bookmark, len(each.cursor), each.end) for each in messages]

    assert told(task_ids=[task_id]) == told(task_ids=["tsk_" + "0" * 32])
    assert told(batch_id=batch_id) == told(batch_id="bat_" + "0" * 32)
    assert told(task_ids=[task_id])[-1][-1].reason == task_pb2.WatchEnd.tasks_ended


def test_a_watch_by_the_id_of_anothers_task_gets_none_of_its_events(ann: Stubs, bob: Stubs) -> None:
    task_id = submit(ann)
    own = submit(bob, OTHER_AGENT)
    stream = begin(bob, task_ids=[task_id, own])
    ann.call(ann.tasks.CancelTask, task_pb2.CancelTaskRequest(task_id=task_id))
    bob.call(bob.tasks.CancelTask, task_pb2.CancelTaskRequest(task_id=own))
    assert [event.task.task_id for event in events_until(stream, own)] == [own]
    stream.cancel()


def test_a_cursor_resumes_and_is_no_use_to_another(yard: Yard, ann: Stubs, bob: Stubs) -> None:
    stream = begin(ann)
    first = submit(ann)
    message = next(message for message in stream if message.events)
    stream.cancel()
    assert message.events[-1].task.task_id == first
    submit(bob, OTHER_AGENT)
    own = submit(ann)
    resumed = watch(ann, cursor=message.cursor)
    assert [event.task.task_id for event in events_until(resumed, own)] == [own]
    resumed.cancel()
    with stubs(yard, "operator") as operator, stubs(yard, "an*") as prefix:
        for other in (bob, operator, prefix):
            with pytest.raises(grpc.RpcError) as refused:
                list(watch(other, cursor=message.cursor))
            assert "its position has left the log" in str(refused.value.details())


def test_a_cursor_tells_nothing(ann: Stubs) -> None:
    cursor = next(watch(ann)).cursor
    assert cursor.startswith("s.")
    for wrong in (cursor[:-1], "s.", "s." + "A" * 64):
        with pytest.raises(grpc.RpcError) as refused:
            list(watch(ann, cursor=wrong))
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION or "left the log" in refused.value.details()
    with pytest.raises(grpc.RpcError) as refused:
        list(watch(ann, cursor="*"))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
