"""Claims of hosts (docs/rules.md, Registration, Liveness, Matching): which tasks a host gets."""

import asyncio

import pytest

from taskyard.v1 import lease_pb2, task_pb2
from taskyard.v1.task_pb2 import Task
from tests.services.hosts.host_fields import seconds

OTHER = (("taskyard-namespace", "other"),)


# Claims


async def test_a_claim_returns_only_queued_tasks(api):
    await api.register()
    cancelled, done, queued = [await api.submit() for _ in range(3)]
    await api.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=cancelled))
    lease = await api.claim()
    assert lease.task_id == done
    await api.leases.CompleteTask(
        lease_pb2.CompleteTaskRequest(host_id="host", task_id=done, fencing_token=lease.fencing_token)
    )
    assert (await api.claim()).task_id == queued
    assert not (await api.claim()).claimed


async def test_a_claim_returns_the_documented_fields(api):
    await api.register()
    empty = await api.claim()
    assert empty == lease_pb2.ClaimTaskResponse(claimed=False)
    task_id = await api.submit()
    lease = await api.claim()
    assert lease.claimed
    assert lease.task_id == lease.task.task_id == task_id
    assert seconds(lease.lease_expires_at) == pytest.approx(api.clock.now + 60, abs=1e-5)
    assert lease.fencing_token == 1
    assert Task.State.Name(lease.task.state) == "assigned"
    assert lease.task.host_id == "host"


async def test_a_task_with_a_live_lease_cannot_be_claimed(api):
    await api.register()
    await api.register("other")
    await api.submit()
    await api.claim()
    await api.advance(59.9)
    assert not (await api.claim("other")).claimed
    assert not (await api.claim()).claimed


@pytest.mark.parametrize("host_id", ["host", "other"])
async def test_a_task_with_an_expired_lease_can_be_claimed_by_any_host(api, host_id):
    await api.register()
    await api.register("other")
    task_id = await api.submit()
    await api.claim()
    await api.advance(61)
    lease = await api.claim(host_id)
    assert (lease.task_id, lease.fencing_token) == (task_id, 2)


async def test_hosts_that_claim_at_once_never_get_the_same_task(start_api):
    api = await start_api(max_inflight=100, max_per_agent_inflight=100)
    for number in range(8):
        await api.register(f"host-{number}")
    ids = [await api.submit() for _ in range(20)]
    claims = await asyncio.gather(*(api.claim(f"host-{number % 8}") for number in range(32)))
    assert sorted(claim.task_id for claim in claims if claim.claimed) == sorted(ids)


# Matching


@pytest.mark.parametrize(
    ("host", "task", "claimed"),
    [
        ({}, {}, True),
        ({}, {"requires": ["gpu"]}, False),
        ({"capabilities": ["gpu"]}, {"requires": ["gpu"]}, True),
        ({"capabilities": ["gpu"]}, {"requires": ["gpu", "arm"]}, False),
        ({"capabilities": ["gpu", "arm", "x"]}, {"requires": ["arm", "gpu"]}, True),
        ({"capabilities": ["gpu"]}, {}, True),
        ({"capabilities": ["GPU"]}, {"requires": ["gpu"]}, False),
        ({"project": "p"}, {}, False),
        ({"project": "p"}, {"project": "p"}, True),
        ({"project": "p"}, {"project": "q"}, False),
        ({}, {"project": "p"}, True),
        ({"actions": ["click"]}, {"action": "click"}, True),
        ({"actions": ["click", "type"]}, {"action": "type"}, True),
        ({"actions": ["click"]}, {"action": "type"}, False),
        ({"actions": ["click"], "capabilities": ["gpu"]}, {"action": "type", "requires": ["gpu"]}, False),
    ],
)
async def test_capabilities_project_and_actions_decide_which_tasks_a_host_gets(api, host, task, claimed):
    await api.register(**host)
    await api.submit(**task)
    assert (await api.claim()).claimed is claimed


async def test_registering_again_changes_which_tasks_a_host_gets(api):
    await api.register()
    task_id = await api.submit(requires=["gpu"])
    assert not (await api.claim()).claimed
    await api.register(capabilities=["gpu"])
    assert (await api.claim()).task_id == task_id


async def test_a_claim_can_select_a_project_but_not_another_than_that_of_its_host(api, refused):
    await api.register("any")
    await api.register("own", project="p")
    plain, of_q, of_p = await api.submit(), await api.submit(project="q"), await api.submit(project="p")
    assert (await api.claim("any", project="p")).task_id == of_p
    assert not (await api.claim("any", project="p")).claimed
    refusal = await refused(api.claim("own", project="q"))
    assert refusal.code == "bad_request"
    assert not (await api.claim("own", project="p")).claimed
    assert [(await api.claim("any")).task_id for _ in range(2)] == [plain, of_q]


async def test_namespaces_are_isolated(api, refused):
    here = await api.submit()
    there = await api.submit(metadata=OTHER)
    await api.register("host", display_name="here")
    assert not (await api.list_hosts(metadata=OTHER)).hosts
    assert (await refused(api.claim("host", metadata=OTHER))).code == "not_found"
    await api.register("host", metadata=OTHER, display_name="there")
    assert [host.display_name for host in (await api.list_hosts(metadata=OTHER)).hosts] == ["there"]
    assert (await api.claim("host", metadata=OTHER)).task_id == there
    assert not (await api.claim("host", metadata=OTHER)).claimed
    await api.deregister("host", metadata=OTHER)
    assert (await api.get_host()).display_name == "here"
    assert (await api.claim("host")).task_id == here
