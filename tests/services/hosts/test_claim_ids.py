"""Claims with an id by their calls: answers and refusals (docs/rules.md, Claim ids)."""

import asyncio

import pytest

from taskyard.v1 import lease_pb2


async def claim_many(api, **fields):
    request = lease_pb2.ClaimTasksRequest(**{"host_id": "host", "max_tasks": 10, **fields})
    answer = await api.leases.ClaimTasks(request)
    return [(each.lease.task_id, each.lease.fencing_token) for each in answer.assignments]


@pytest.fixture
async def tasks(api):
    """A registered host, and three tasks."""
    await api.register()
    return [await api.submit() for _ in range(3)]


async def test_a_claim_is_repeated_after_a_lost_answer(api, tasks):
    lease = await api.claim(claim_id="first")
    await api.advance(10)
    again = await api.claim(claim_id="first")
    assert (again.task_id, again.fencing_token) == (lease.task_id, lease.fencing_token) == (tasks[0], 1)
    assert again.lease_expires_at == lease.lease_expires_at


async def test_a_claim_of_several_is_repeated_with_those_that_are_left(api, tasks):
    leases = await claim_many(api, claim_id="first")
    assert [task for task, _ in leases] == tasks
    assert await claim_many(api, claim_id="first", max_tasks=1) == leases
    task_id, token = leases[0]
    await api.leases.CompleteTask(
        lease_pb2.CompleteTaskRequest(host_id="host", task_id=task_id, fencing_token=token, result=None)
    )
    assert await claim_many(api, claim_id="first") == leases[1:]


async def test_a_claim_of_one_is_answered_with_the_oldest_of_several(api, tasks):
    await claim_many(api, claim_id="first")
    assert (await api.claim(claim_id="first")).task_id == tasks[0]


async def test_a_repeat_ends_the_call_that_waits(api):
    await api.register()
    first = asyncio.ensure_future(api.claim(claim_id="first", wait_ms=60_000))
    # Whichever of the two comes first is ended by the other, and that one waits on.
    second = asyncio.ensure_future(api.claim(claim_id="first", wait_ms=60_000))
    (ended,), (waits,) = await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
    assert not ended.result().claimed
    task_id = await api.submit()
    assert (await waits).task_id == task_id


async def test_an_empty_id_is_none(api, tasks):
    claims = [await api.claim(claim_id="") for _ in range(3)]
    assert [claim.task_id for claim in claims] == tasks


@pytest.mark.parametrize(
    ("claim_id", "message"),
    [
        ("x" * 129, "claim_id: must be at most 128 characters"),
        ("two\nlines", "claim_id: must not hold control characters"),
    ],
)
async def test_a_wrong_id_is_refused_and_leases_nothing(api, tasks, refused, claim_id, message):
    for call in (api.claim(claim_id=claim_id), claim_many(api, claim_id=claim_id)):
        refusal = await refused(call)
        assert (refusal.code, refusal.message) == ("bad_request", message)
    assert (await api.claim(claim_id="x" * 128)).task_id == tasks[0]
