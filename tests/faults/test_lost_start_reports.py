"""Start reports that are lost with their stream (docs/rules.md, Acknowledged starts).

The server frees the target of a task whose start it never saw. A host that had started it would run beside the next
task of the target.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard import Client, TaskState
from tests.waiting import LIMIT_SECS

from .fleet import Fleet
from .single_runs import assert_one_at_a_time

pytestmark = pytest.mark.gate("fleets of processes")

LEASE_SECS = 600
"""Much longer than the test, so that leases end only because of lost streams."""
STOP_SECS = 20
"""How long a cancelled handler takes to stop: the next host starts meanwhile."""


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    await fleet.start_server()
    try:
        yield fleet
    finally:
        await fleet.stop()


async def lose_start_report(fleet: Fleet, client: Client, *, refuse: bool) -> str:
    """Have a task of the target `t` assigned to the only host, and cut the host off once it has reported the start.

    The server does not see the report. With `refuse` the host cannot reconnect. Returns the id of the task.
    """
    await fleet.start_workers(1, slots=1, lease_secs=LEASE_SECS)
    (worker,) = fleet.workers
    params = {"secs": 2, "stop_secs": STOP_SECS}
    task_id = (await client.submit("work", params=params, target="t", hold=True)).id
    worker.cutter.swallow_from(task_id)
    await client.resume(task_id)
    async with asyncio.timeout(LIMIT_SECS):
        await worker.cutter.swallowing.wait()
    assert (await client.get(task_id)).state is TaskState.ASSIGNED
    worker.cutter.cut(refuse=refuse)
    return task_id


async def test_a_host_whose_start_report_was_lost_never_runs_the_task_while_another_host_runs_its_target(
    fleet: Fleet,
) -> None:
    async with Client(fleet.address, agent_id="ann") as client:
        first = await lose_start_report(fleet, client, refuse=True)
        second = (await client.submit("work", params={"secs": 0.2}, target="t")).id
        await fleet.start_workers(1, slots=1, lease_secs=LEASE_SECS)
        for task_id in (first, second):
            ended = await client.wait(task_id, timeout=30)
            assert (ended.state, ended.host_id) == (TaskState.DONE, "host-01")
        # The first host reconnects and works again.
        fleet.workers[0].cutter.restore()
        await fleet.workers[1].kill()
        third = (await client.submit("work", params={"secs": 0}, target="t")).id
        assert (await client.wait(third, timeout=30)).host_id == "host-00"
    assert_one_at_a_time(fleet.diaries(), dict.fromkeys((first, second, third), "t"), killed={})
    assert [entry["task"] for entry in fleet.diaries() if entry["host"] == "host-00"] == [third] * 2


async def test_a_host_that_reconnects_in_time_reports_the_start_again_and_runs_the_task_once(fleet: Fleet) -> None:
    async with Client(fleet.address, agent_id="ann") as client:
        task_id = await lose_start_report(fleet, client, refuse=False)
        fleet.workers[0].cutter.restore()
        ended = await client.wait(task_id, timeout=30)
    assert (ended.state, ended.result) == (TaskState.DONE, {"host": "host-00", "token": 1})
    assert [entry["what"] for entry in fleet.diaries()] == ["start", "end"]
