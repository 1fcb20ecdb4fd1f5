"""ClaimTask and ClaimTasks (docs/rules.md, Leases): waiting for a task, and several tasks at once."""

import asyncio

import pytest
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1 import lease_pb2 as pb
from taskyard.v1 import runtime_host_pb2
from tests.services.leases.report_calls import seconds, state_name
from tests.waiting import until

# Waiting for a task


async def claims_wait(api, count=1):
    """Once so many claims wait for a task."""
    await until(lambda: sum(len(state.claims) for state in api.engine._namespaces) == count)


async def test_a_waiting_claim_is_served_by_a_submit(real_time_api):
    waiting = asyncio.ensure_future(real_time_api.claim(wait_ms=30_000))
    await claims_wait(real_time_api)
    assert not waiting.done()
    task_id = await real_time_api.submit()
    assert (await waiting).task_id == task_id


async def test_a_waiting_claim_of_several_is_served_by_a_submit(real_time_api):
    waiting = asyncio.ensure_future(real_time_api.claim_many(5, wait_ms=30_000))
    await claims_wait(real_time_api)
    task_id = await real_time_api.submit()
    assert [assignment.lease.task_id for assignment in (await waiting).assignments] == [task_id]


async def test_a_waiting_claim_returns_no_task_after_its_timeout(real_time_api):
    begin = asyncio.get_running_loop().time()
    response = await real_time_api.claim(wait_ms=100)
    assert response == pb.ClaimTaskResponse(claimed=False)
    assert asyncio.get_running_loop().time() - begin >= 0.09


async def test_a_waiting_claim_is_served_by_a_release_and_by_a_deregistration(real_time_api):
    await real_time_api.register("other")
    task_id = await real_time_api.submit()
    lease = await real_time_api.claim()
    waiting = asyncio.ensure_future(real_time_api.claim("other", wait_ms=30_000))
    await claims_wait(real_time_api)
    await real_time_api.report("ReleaseTask", lease)
    assert (await waiting).task_id == task_id
    waiting = asyncio.ensure_future(real_time_api.claim(wait_ms=30_000))
    await claims_wait(real_time_api)
    await real_time_api.hosts.DeregisterHost(runtime_host_pb2.DeregisterHostRequest(host_id="other"))
    assert (await waiting).task_id == task_id


async def test_one_task_serves_one_of_many_waiting_claims(real_time_api):
    waiting = [asyncio.ensure_future(real_time_api.claim(wait_ms=30_000)) for _ in range(5)]
    await claims_wait(real_time_api, 5)
    task_id = await real_time_api.submit()
    (served,), others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert (await served).task_id == task_id
    await claims_wait(real_time_api, 4)
    for other in others:
        other.cancel()


async def test_a_cancelled_claim_takes_no_task(real_time_api):
    waiting = real_time_api.claim(wait_ms=30_000)
    await claims_wait(real_time_api)
    waiting.cancel()
    await claims_wait(real_time_api, 0)
    task_id = await real_time_api.submit()
    assert await real_time_api.state(task_id) == "queued"
    assert (await real_time_api.claim()).fencing_token == 1


async def test_a_waiting_claim_is_not_found_when_its_host_is_deregistered(real_time_api, refused):
    waiting = asyncio.ensure_future(real_time_api.claim(wait_ms=30_000))
    await claims_wait(real_time_api)
    await real_time_api.hosts.DeregisterHost(runtime_host_pb2.DeregisterHostRequest(host_id="host"))
    assert (await refused(waiting)).code == "not_found"


# Several at once


async def test_a_claim_of_several_returns_leases_and_tasks_in_claim_order(api):
    late = await api.submit(priority=5)
    ids = [await api.submit() for _ in range(3)]
    params = Struct(fields={"x": Value(number_value=1)})
    other = await api.submit(agent_id="bob", params=params)
    assignments = (await api.claim_many(4, lease_secs=90)).assignments
    assert [assignment.lease.task_id for assignment in assignments] == [ids[0], other, ids[1], ids[2]]
    for token, assignment in enumerate(assignments, 1):
        assert assignment.lease.task_id == assignment.task.task_id
        lease = assignment.lease
        assert (lease.host_id, lease.fencing_token, lease.lease_secs) == ("host", token, 90)
        assert seconds(assignment.lease.expires_at) - seconds(assignment.lease.claimed_at) == pytest.approx(
            90, abs=1e-5
        )
        assert state_name(assignment.task) == "assigned"
    assert assignments[1].task.params == params
    assert [assignment.lease.task_id for assignment in (await api.claim_many(4)).assignments] == [late]
    assert not (await api.claim_many(4)).assignments


@pytest.mark.parametrize("count", [0, 1001, 2**32 - 1])
async def test_a_claim_of_zero_or_more_than_a_thousand_tasks_is_refused(api, refused, count):
    task_id = await api.submit()
    refusal = await refused(api.claim_many(count))
    assert refusal.code == "bad_request"
    assert "max_tasks" in refusal.message
    assert await api.state(task_id) == "queued"


@pytest.mark.parametrize("count", [1, 1000])
async def test_a_claim_of_one_or_a_thousand_tasks_is_allowed(api, count):
    await api.submit()
    assert len((await api.claim_many(count)).assignments) == 1


async def test_tasks_that_do_not_fit_into_one_response_keep_their_place_in_the_queue(start_api):
    api = await start_api(max_inflight=100, max_per_agent_inflight=100)
    bulky = Struct(fields={"text": Value(string_value="x" * 250_000)})
    ids = [await api.submit(params=bulky) for _ in range(20)]
    batches = []
    while assignments := (await api.claim_many(100)).assignments:
        batches.append([assignment.lease.task_id for assignment in assignments])
    assert [task_id for batch in batches for task_id in batch] == ids
    assert len(batches) == 2
    assert len((await api.list_leases()).leases) == 20
