"""CancelTask and PauseTask with `wait_ms` (docs/rules.md, Waiting for a stop)."""

import asyncio

import pytest

from taskyard.v1.task_pb2 import Stopping, Task
from taskyard_server.core.reports import Report, ReportKind

STATES = {"cancel": Task.cancelled, "pause": Task.paused}


async def running(api, **fields):
    """The lease of a task that runs."""
    await api.submit(**fields)
    return await api.run_one()


async def release(api, lease):
    await api.engine.leases.report("default", "host", [Report(ReportKind.RELEASED, lease.task.id, lease.token)])


@pytest.mark.parametrize("command", STATES)
async def test_the_answer_says_that_the_host_has_stopped(api, eventually, command):
    lease = await running(api)
    call = asyncio.ensure_future(getattr(api, command)(lease.task.id, wait_ms=30_000))
    await eventually(lambda: api.get(lease.task.id), lambda task: task.state == STATES[command])
    await release(api, lease)
    response = await call
    assert (response.status, response.stopping) == (STATES[command], Stopping.released)


@pytest.mark.parametrize("command", STATES)
async def test_the_answer_comes_at_once_without_a_time_to_wait(api, command):
    lease = await running(api)
    response = await getattr(api, command)(lease.task.id, wait_ms=0)
    assert (response.status, response.stopping) == (STATES[command], Stopping.waiting)


@pytest.mark.parametrize("command", STATES)
async def test_who_does_not_ask_is_told_nothing_of_the_host(api, command):
    lease = await running(api)
    assert not (await getattr(api, command)(lease.task.id)).HasField("stopping")


async def test_a_task_that_no_host_had_does_not_run(api):
    task_id = (await api.submit()).task_id
    response = await api.cancel(task_id, wait_ms=2**32 - 1)
    assert (response.status, response.stopping) == (Task.cancelled, Stopping.not_running)
    assert not response.HasField("children_cancelled")


async def test_children_are_counted_and_waited_for(api):
    parent = (await api.submit()).task_id
    await api.submit(parent_id=parent)
    response = await api.cancel(parent, wait_ms=1, cancel_children=True)
    assert (response.children_cancelled, response.stopping) == (1, Stopping.not_running)


async def test_a_wait_of_more_than_a_minute_is_one_of_a_minute(api, monkeypatch):
    asked = []

    async def pause_and_wait(namespace, task_id, secs, **more):
        del namespace, task_id, more
        asked.append(secs)
        raise AssertionError("enough")

    monkeypatch.setattr(api.engine.tasks, "pause_and_wait", pause_and_wait)
    with pytest.raises(Exception, match="internal"):
        await api.pause("tsk_1", wait_ms=60_001)
    assert asked == [60.0]
