"""Fencing of reports (docs/rules.md, Grants, Fencing tokens, Reports): only the holder of a live lease can report."""

import math

import grpc
import pytest
from google.protobuf.struct_pb2 import Value

from taskyard.v1 import runtime_host_pb2, task_pb2
from tests.cases import every_case
from tests.services.leases.report_calls import REPORTS, required_fields, state_name

# A token is a whole number that a double can count.
BAD_TOKENS = [-1, 0.5, 1.5, 2.0**53 + 2, 1e300, math.inf, -math.inf, math.nan]


async def test_each_claim_of_a_task_has_a_higher_token(api):
    task_id = await api.submit()
    tokens = []
    for _ in range(3):
        lease = await api.claim()
        assert lease.task_id == task_id
        tokens.append(lease.fencing_token)
        await api.advance(61)
    assert tokens == [1, 2, 3]


async def test_tokens_grow_over_the_tasks_of_a_namespace_and_begin_anew_in_another_one(api):
    tokens = []
    for _ in range(3):
        await api.submit()
        lease = await api.claim()
        tokens.append(lease.fencing_token)
        await api.report("CompleteTask", lease)
    assert tokens == [1, 2, 3]
    elsewhere = (("taskyard-namespace", "elsewhere"),)
    await api.hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="host"), metadata=elsewhere)
    await api.tasks.SubmitTask(task_pb2.SubmitTaskRequest(agent_id="ann", action="click"), metadata=elsewhere)
    assert (await api.claim(metadata=elsewhere)).fencing_token == 1


@pytest.mark.parametrize("call", [call for call in REPORTS if call != "ReleaseTask"])
async def test_a_report_with_a_stale_token_is_lease_lost_and_changes_nothing(api, refused, by_rest, call):
    task_id = await api.submit()
    stale = await api.claim()
    await api.advance(61)
    current = await api.claim()
    before = await api.get(task_id), await api.list_leases()
    refusal = await refused(api.report(call, stale, metadata=by_rest, **required_fields(call)))
    assert refusal.status is grpc.StatusCode.ABORTED
    assert refusal.code == "lease_lost"
    assert refusal.trailers["x-http-status"] == "409"
    assert refusal.rest_body["code"] == "lease_lost"
    assert (await api.get(task_id), await api.list_leases()) == before
    assert await api.late_reports() == 1
    assert state_name(await api.report("CompleteTask", current)) == "done"


async def test_a_release_with_a_stale_token_is_accepted_and_changes_nothing(api):
    task_id = await api.submit()
    stale = await api.claim()
    await api.advance(61)
    await api.claim()
    before = await api.get(task_id), await api.list_leases()
    assert state_name(await api.report("ReleaseTask", stale)) == "assigned"
    assert (await api.get(task_id), await api.list_leases()) == before
    assert await api.late_reports() == 0


@pytest.mark.parametrize("call", REPORTS)
async def test_a_report_by_another_host_than_the_holder_is_lease_lost(api, refused, call):
    task_id = await api.submit()
    await api.register("thief")
    lease = await api.claim()
    refusal = await refused(api.report(call, lease, host_id="thief", **required_fields(call)))
    assert refusal.code == "lease_lost"
    assert await api.state(task_id) == "assigned"
    assert await api.late_reports() == 1


@every_case("call", REPORTS)
async def test_a_report_without_a_token_is_refused(api, lease, refused, call):
    refusal = await refused(api.report(call, lease, fencing_token=0, **required_fields(call)))
    assert (refusal.code, refusal.message) == ("bad_request", "fencing_token: is required")
    assert await api.state(lease.task_id) == "assigned"


@pytest.fixture
async def lease(api):
    """The lease of a task."""
    await api.submit()
    return await api.claim()


@every_case("call", REPORTS)
@every_case("token", BAD_TOKENS)
async def test_a_report_with_what_is_no_token_is_refused_by_the_name_of_the_field(api, lease, refused, call, token):
    refusal = await refused(api.report(call, lease, fencing_token=token, **required_fields(call)))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert (refusal.code, refusal.message) == ("bad_request", "fencing_token: must be a whole number from 0 to 2^53")
    assert await api.state(lease.task_id) == "assigned"
    assert await api.late_reports() == 0


async def test_the_greatest_token_is_one(api, refused):
    await api.submit()
    lease = await api.claim()
    assert (await refused(api.report("StartTask", lease, fencing_token=2**53))).code == "lease_lost"


@every_case("call", REPORTS)
async def test_a_report_with_a_token_not_yet_granted_is_lease_lost(api, lease, refused, call):
    assert (await refused(api.report(call, lease, fencing_token=2, **required_fields(call)))).code == "lease_lost"
    assert await api.state(lease.task_id) == "assigned"


@every_case("call", REPORTS)
async def test_a_report_of_an_unknown_host_or_task_is_not_found(api, lease, refused, call):
    for wrong_fields in ({"host_id": "ghost"}, {"task_id": "tsk_ghost"}, {"task_id": ""}):
        refusal = await refused(api.report(call, lease, **{**required_fields(call), **wrong_fields}))
        assert refusal.status is grpc.StatusCode.NOT_FOUND
    assert await api.late_reports() == 0


@pytest.mark.parametrize("call", [call for call in REPORTS if call != "ReleaseTask"])
@pytest.mark.parametrize("end", ["cancel", "complete", "expire", "release", "deregister"])
async def test_a_report_after_the_lease_has_ended_is_lease_lost_and_changes_nothing(api, refused, call, end):
    task_id = await api.submit()
    lease = await api.claim()
    match end:
        case "cancel":
            await api.cancel(task_id)
        case "complete":
            await api.report("CompleteTask", lease, result=Value(string_value="first"))
        case "expire":
            await api.advance(61)
        case "release":
            await api.report("ReleaseTask", lease)
        case "deregister":
            await api.hosts.DeregisterHost(runtime_host_pb2.DeregisterHostRequest(host_id="host"))
            await api.register()
    before = await api.get(task_id)
    assert (await refused(api.report(call, lease, **required_fields(call)))).code == "lease_lost"
    assert await api.get(task_id) == before
    assert await api.late_reports() == 1
