"""Drains of hosts (docs/rules.md, Registration, Liveness, Matching)."""

import pytest

from taskyard.v1 import lease_pb2


async def test_a_draining_host_gets_no_tasks_until_it_registers_again(api):
    await api.register()
    task_id = await api.submit()
    assert (await api.drain()).host.draining
    assert not (await api.claim()).claimed
    assert (await api.heartbeat()).draining
    assert not (await api.register()).HasField("draining")
    assert (await api.claim()).task_id == task_id


async def test_a_draining_host_can_finish_its_tasks(api):
    await api.register()
    task_id = await api.submit()
    lease = await api.claim()
    await api.drain()
    assert (await api.get_host()).leases == 1
    await api.leases.CompleteTask(
        lease_pb2.CompleteTaskRequest(host_id="host", task_id=task_id, fencing_token=lease.fencing_token)
    )
    assert await api.state(task_id) == "done"


async def test_the_drain_of_one_host_does_not_affect_the_others(api):
    await api.register()
    await api.register("other")
    await api.drain()
    await api.drain()
    task_id = await api.submit()
    assert (await api.claim("other")).task_id == task_id


@pytest.mark.parametrize("grace_period_secs", [0, 5])
async def test_tasks_still_in_flight_after_the_grace_period_of_a_drain_are_paused(api, grace_period_secs):
    await api.register()
    task_id = await api.submit()
    await api.claim()
    await api.drain(grace_period_secs=grace_period_secs)
    assert await api.state(task_id) == "assigned"
    await api.advance(grace_period_secs + 0.2)
    assert await api.state(task_id) == "paused"
    assert (await api.get_host()).leases == 0
