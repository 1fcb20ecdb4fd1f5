"""Reports by calls (docs/rules.md, Leases): start, progress, complete, fail and release."""

import grpc
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1 import stats_pb2
from taskyard.v1.task_pb2 import Progress, Task
from tests.services.leases.report_calls import nested_value, required_fields, seconds, state_name

# Start, progress, complete, fail


async def test_a_start_can_be_repeated(api):
    task_id = await api.submit()
    lease = await api.claim()
    first = await api.report("StartTask", lease)
    assert (first.task_id, state_name(first)) == (task_id, "running")
    started_at = (await api.get(task_id)).started_at
    await api.advance(3)
    assert await api.report("StartTask", lease) == first
    assert (await api.get(task_id)).started_at == started_at
    assert await api.late_reports() == 0


async def test_progress_is_shown_on_the_task_and_counts_as_a_start(api):
    task_id = await api.submit()
    lease = await api.claim()
    progress = ParseDict({"fraction": 0.25, "message": "page 1", "details": {"n": [1, None]}}, Progress())
    response = await api.report("ReportProgress", lease, progress=progress)
    assert (response.task_id, state_name(response)) == (task_id, "running")
    task = await api.get(task_id)
    assert state_name(task) == "running"
    assert seconds(task.started_at) == pytest.approx(api.clock.now, abs=1e-5)
    assert (task.progress.fraction, task.progress.message) == (0.25, "page 1")
    assert task.progress.details == progress.details
    assert seconds(task.progress.reported_at) == pytest.approx(api.clock.now, abs=1e-5)


async def test_the_last_progress_is_shown_also_after_the_task_has_ended(api):
    task_id = await api.submit()
    lease = await api.claim()
    await api.report("ReportProgress", lease, progress=Progress(fraction=0.25, message="page 1"))
    forged = Progress(fraction=0.5)
    forged.reported_at.FromSeconds(1)
    await api.advance(2)
    await api.report("ReportProgress", lease, progress=forged)
    reported = (await api.get(task_id)).progress
    assert (reported.fraction, reported.HasField("message")) == (0.5, False)
    assert seconds(reported.reported_at) == pytest.approx(api.clock.now, abs=1e-5)
    await api.report("CompleteTask", lease)
    assert (await api.get(task_id)).progress == reported


async def test_a_completion_without_a_start_counts_as_both(api):
    task_id = await api.submit()
    lease = await api.claim()
    result = ParseDict({"loss": 0.5, "steps": [1, None]}, Value())
    response = await api.report("CompleteTask", lease, result=result)
    assert (response.task_id, state_name(response)) == (task_id, "done")
    task = await api.get(task_id)
    assert task.result == result
    assert task.started_at == task.completed_at
    assert (task.latency_ms, task.HasField("error")) == (0, False)
    assert not (await api.list_leases()).leases


async def test_a_task_can_be_done_without_a_result(api):
    task_id = await api.submit()
    await api.report("CompleteTask", await api.claim())
    assert not (await api.get(task_id)).HasField("result")


async def test_a_failure_without_a_start_does_not_count_as_a_start(api):
    task_id = await api.submit()
    response = await api.report("FailTask", await api.claim(), error="element not found", retryable=False, code="gone")
    assert (response.task_id, state_name(response)) == (task_id, "failed")
    task = await api.get(task_id)
    assert task.error == "element not found"
    assert not task.HasField("started_at")


async def test_a_failure_needs_an_error(api, refused):
    task_id = await api.submit()
    lease = await api.claim()
    refusal = await refused(api.report("FailTask", lease))
    assert (refusal.code, refusal.message) == ("bad_request", "error: is required")
    assert await api.state(task_id) == "assigned"


@pytest.mark.parametrize("call", ["CompleteTask", "FailTask"])
async def test_a_repeated_outcome_counts_once(api, refused, call):
    await api.submit()
    lease = await api.claim()
    await api.report(call, lease, **required_fields(call))
    assert (await refused(api.report(call, lease, **required_fields(call)))).code == "lease_lost"
    metrics = (await api.stats_stub.GetStats(stats_pb2.GetStatsRequest())).metrics
    assert metrics.tasks_completed + metrics.tasks_failed == 1
    assert metrics.late_reports == 1


async def test_a_report_without_progress_keeps_the_last_progress(api):
    task_id = await api.submit()
    lease = await api.claim()
    await api.report("ReportProgress", lease, progress=Progress(fraction=0.5, message="half"))
    await api.report("ReportProgress", lease)
    task = await api.get(task_id)
    assert task.progress.message == "half"
    assert state_name(task) == "running"


@pytest.mark.parametrize("fraction", [-0.1, 1.5, float("nan")])
async def test_a_fraction_must_be_from_0_to_1(api, refused, fraction):
    task_id = await api.submit()
    lease = await api.claim()
    refusal = await refused(api.report("ReportProgress", lease, progress=Progress(fraction=fraction)))
    assert (refusal.code, refusal.message) == ("bad_request", "progress.fraction: must be from 0 to 1")
    assert not (await api.get(task_id)).HasField("progress")


# Release


async def test_a_release_can_be_repeated(api):
    await api.submit()
    lease = await api.claim()
    for _ in range(2):
        assert state_name(await api.report("ReleaseTask", lease)) == "queued"
    assert await api.late_reports() == 0


async def test_a_release_after_a_cancellation_is_accepted(api):
    task_id = await api.submit()
    lease = await api.claim()
    await api.cancel(task_id)
    assert state_name(await api.report("ReleaseTask", lease)) == "cancelled"
    assert await api.late_reports() == 0


async def test_a_release_returns_the_task_to_its_place(api):
    first, second = await api.submit(), await api.submit()
    lease = await api.claim()
    response = await api.report("ReleaseTask", lease)
    assert (response.task_id, state_name(response)) == (first, "queued")
    assert not (await api.list_leases()).leases
    again = await api.claim()
    assert (again.task_id, again.fencing_token) == (first, 2)
    assert (await api.claim()).task_id == second


async def test_a_running_task_can_be_released_and_keeps_its_first_start(api):
    task_id = await api.submit()
    lease = await api.claim()
    await api.report("StartTask", lease)
    started_at = (await api.get(task_id)).started_at
    await api.report("ReleaseTask", lease)
    await api.advance(5)
    await api.report("StartTask", await api.claim())
    assert (await api.get(task_id)).started_at == started_at


async def test_an_expired_lease_counts_as_a_delivery_and_a_release_does_not(start_api, clock):
    api = await start_api(clock, max_deliveries=2)
    task_id = await api.submit()
    for _ in range(4):
        await api.report("ReleaseTask", await api.claim())
    for state in ("queued", "failed"):
        assert (await api.claim()).task_id == task_id
        await api.advance(61)
        assert await api.state(task_id) == state
    assert (await api.get(task_id)).error == "lease expired"


# Tokens


@pytest.mark.parametrize("call", ["ReportProgress", "CompleteTask", "FailTask"])
@pytest.mark.parametrize("tokens", [0, 5])
async def test_every_report_can_carry_the_tokens_of_the_attempt(api, call, tokens):
    task_id = await api.submit()
    assert not (await api.get(task_id)).HasField("tokens_used")
    await api.report(call, await api.claim(), tokens_used=tokens, **required_fields(call))
    task = await api.get(task_id)
    assert task.HasField("tokens_used")
    assert task.tokens_used == tokens


@pytest.mark.parametrize("call", ["ReportProgress", "CompleteTask", "FailTask"])
async def test_a_stale_report_counts_no_tokens(api, refused, call):
    task_id = await api.submit(token_limit=1)
    lease = await api.claim()
    await api.report("ReleaseTask", lease)
    assert (await refused(api.report(call, lease, tokens_used=5, **required_fields(call)))).code == "lease_lost"
    task = await api.get(task_id)
    assert (task.state, task.HasField("tokens_used")) == (Task.queued, False)


# Too large, too deep


async def test_a_result_that_is_too_large_is_refused_and_the_lease_continues(api, refused, by_rest):
    task_id = await api.submit()
    lease = await api.claim()
    large = Value(string_value="x" * 262_144)
    refusal = await refused(api.report("CompleteTask", lease, result=large, metadata=by_rest))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.code == "too_large"
    assert refusal.trailers["x-http-status"] == "413"
    assert await api.state(task_id) == "assigned"
    exact = Value(string_value="x" * 262_140)
    assert exact.ByteSize() == 262_144
    assert state_name(await api.report("CompleteTask", lease, result=exact)) == "done"
    assert (await api.get(task_id)).result == exact


async def test_a_result_nested_too_deep_is_refused_and_the_lease_continues(api, refused):
    task_id = await api.submit()
    lease = await api.claim()
    refusal = await refused(api.report("CompleteTask", lease, result=nested_value(31)))
    assert refusal.code == "bad_request"
    assert "result" in refusal.message
    assert await api.state(task_id) == "assigned"
    assert state_name(await api.report("CompleteTask", lease, result=nested_value(30))) == "done"


async def test_progress_that_is_too_large_or_nested_too_deep_is_refused(api, refused):
    task_id = await api.submit()
    lease = await api.claim()
    large = Progress(details=Struct(fields={"text": Value(string_value="x" * 262_144)}))
    assert (await refused(api.report("ReportProgress", lease, progress=large))).code == "too_large"
    assert (await refused(api.report("ReportProgress", lease, progress=Progress(message="x" * 262_144)))).code == (
        "too_large"
    )
    deep = Progress(details=Struct(fields={"in": nested_value(30)}))
    assert (await refused(api.report("ReportProgress", lease, progress=deep))).code == "bad_request"
    task = await api.get(task_id)
    assert (state_name(task), task.HasField("progress")) == ("assigned", False)


async def test_a_result_with_a_number_that_is_not_json_is_refused(api, refused):
    task_id = await api.submit()
    lease = await api.claim()
    for number in (float("nan"), float("inf")):
        refusal = await refused(api.report("CompleteTask", lease, result=Value(number_value=number)))
        assert refusal.code == "bad_request"
    assert await api.state(task_id) == "assigned"
