"""LeaseService (runtime-host-model, TaskLease; DESIGN, Leases): hand-out, reports, and who may still report."""

import asyncio
from contextlib import AsyncExitStack

import grpc
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1 import lease_pb2 as pb
from taskyard.v1 import (
    lease_pb2_grpc,
    runtime_host_pb2,
    runtime_host_pb2_grpc,
    stats_pb2,
    stats_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)
from taskyard.v1.task_pb2 import Progress, Task
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.limits import Limits
from taskyard_server.engine.event_log import EventLogs
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.leases import LeaseService
from taskyard_server.services.stats import StatsService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService
from taskyard_server.snapshots import Snapshots
from taskyard_server.webhooks import WebhookCounts


class LeaseApi:
    """A server with its task, host, lease and stats services, as a host sees it."""

    def __init__(self, engine, clock, channel):
        self.engine = engine
        self.clock = clock
        self.hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self.leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self.figures = stats_pb2_grpc.StatsServiceStub(channel)
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)

    def register(self, host_id="host"):
        return self.hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id=host_id))

    def claim(self, host_id="host", metadata=None, **fields):
        return self.leases.ClaimTask(pb.ClaimTaskRequest(host_id=host_id, **fields), metadata=metadata)

    def claim_many(self, most, host_id="host", **fields):
        return self.leases.ClaimTasks(pb.ClaimTasksRequest(host_id=host_id, max_tasks=most, **fields))

    def leased(self, host_id=None, **fields):
        return self.leases.ListLeases(pb.ListLeasesRequest(host_id=host_id, **fields))

    def report(self, call, lease, metadata=None, **fields):
        """A report under a lease as it was claimed; `fields` may name another host or token."""
        request = getattr(pb, f"{call}Request")
        about = {"host_id": "host", "task_id": lease.task_id, "fencing_token": lease.fencing_token}
        return getattr(self.leases, call)(request(**{**about, **fields}), metadata=metadata)

    async def submit(self, **fields):
        request = task_pb2.SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields})
        return (await self.tasks.SubmitTask(request)).task_id

    async def get(self, task_id):
        return await self.tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id))

    async def state(self, task_id):
        return Task.State.Name((await self.get(task_id)).state)

    async def cancel(self, task_id):
        await self.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=task_id))

    async def late_reports(self):
        return (await self.figures.GetStats(stats_pb2.GetStatsRequest())).metrics.late_reports

    async def advance(self, secs):
        """Let time pass, and let everything happen that has come due by then."""
        self.clock.now += secs
        for _ in range(4):
            await asyncio.sleep(0)


@pytest.fixture
async def open_leases():
    """Starts a server with these limits and this clock, and a host that runs everything."""
    async with AsyncExitStack() as ends:

        async def start(clock=None, **limits):
            engine = MemoryEngine(Limits(**{"default_deadline_secs": 100_000.0, **limits}), clock)
            ends.push_async_callback(engine.admin.close)
            server = grpc.aio.server(interceptors=(CallInterceptor(),))
            watches = TaskWatches(engine, EventLogs(encode_event, engine.now))
            task_pb2_grpc.add_TaskServiceServicer_to_server(TaskService(engine, 262_144, watches), server)
            stats = StatsService(engine, Snapshots(engine, lambda: 60.0), lambda _: WebhookCounts(), "fair-fifo", 4)
            stats_pb2_grpc.add_StatsServiceServicer_to_server(stats, server)
            lease_pb2_grpc.add_LeaseServiceServicer_to_server(LeaseService(engine, 262_144), server)
            runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(RuntimeHostService(engine, 262_144), server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            ends.push_async_callback(server.stop, None)
            channel = await ends.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            yard = LeaseApi(engine, clock, channel)
            await yard.register()
            return yard

        yield start


@pytest.fixture
async def frozen_clock(clock, monkeypatch):
    """A clock that stands still until a test moves it; the loop's timers go by it, too."""
    loop = asyncio.get_running_loop()
    loop_begin, begin = loop.time(), clock.now
    monkeypatch.setattr(loop, "time", lambda: loop_begin + clock.now - begin)
    return clock


@pytest.fixture
async def yard(open_leases, frozen_clock):
    """A server with the documented limits, whose time a test moves."""
    return await open_leases(frozen_clock)


@pytest.fixture
async def live(open_leases):
    """A server with the documented limits, in real time."""
    return await open_leases()


REPORTS = ["RenewLease", "StartTask", "ReportProgress", "CompleteTask", "FailTask", "ReleaseTask"]


def needed(call):
    """What a report carries besides its lease."""
    return {"error": "broken"} if call == "FailTask" else {}


def word(answer):
    """The state in an answer, as JSON shows it."""
    return Task.State.Name(answer.state)


def seconds(timestamp):
    return timestamp.ToNanoseconds() / 1e9


def nested(levels):
    value = Value(number_value=1)
    for _ in range(levels):
        outer = Value()
        outer.list_value.values.add().CopyFrom(value)
        value = outer
    return value


# Fencing


async def test_each_claim_of_a_task_has_a_greater_token(yard):
    task_id = await yard.submit()
    tokens = []
    for _ in range(3):
        lease = await yard.claim()
        assert lease.task_id == task_id
        tokens.append(lease.fencing_token)
        await yard.advance(61)
    assert tokens == [1, 2, 3]


@pytest.mark.parametrize("call", [call for call in REPORTS if call != "ReleaseTask"])
async def test_a_report_with_a_stale_token_is_lease_lost_and_changes_nothing(yard, refused, by_rest, call):
    task_id = await yard.submit()
    stale = await yard.claim()
    await yard.advance(61)
    present = await yard.claim()
    before = await yard.get(task_id), await yard.leased()
    refusal = await refused(yard.report(call, stale, metadata=by_rest, **needed(call)))
    assert refusal.status is grpc.StatusCode.ABORTED
    assert refusal.code == "lease_lost"
    assert refusal.trailers["x-http-status"] == "409"
    assert refusal.rest_body["code"] == "lease_lost"
    assert (await yard.get(task_id), await yard.leased()) == before
    assert await yard.late_reports() == 1
    assert word(await yard.report("CompleteTask", present)) == "done"


async def test_a_release_with_a_stale_token_is_taken_and_changes_nothing(yard):
    task_id = await yard.submit()
    stale = await yard.claim()
    await yard.advance(61)
    await yard.claim()
    before = await yard.get(task_id), await yard.leased()
    assert word(await yard.report("ReleaseTask", stale)) == "assigned"
    assert (await yard.get(task_id), await yard.leased()) == before
    assert await yard.late_reports() == 0


@pytest.mark.parametrize("call", REPORTS)
async def test_a_report_by_another_host_than_the_holder_is_lease_lost(yard, refused, call):
    task_id = await yard.submit()
    await yard.register("thief")
    lease = await yard.claim()
    refusal = await refused(yard.report(call, lease, host_id="thief", **needed(call)))
    assert refusal.code == "lease_lost"
    assert await yard.state(task_id) == "assigned"
    assert await yard.late_reports() == 1


@pytest.mark.parametrize("call", REPORTS)
async def test_a_report_without_a_token_is_refused(yard, refused, call):
    task_id = await yard.submit()
    lease = await yard.claim()
    refusal = await refused(yard.report(call, lease, fencing_token=0, **needed(call)))
    assert (refusal.code, refusal.message) == ("bad_request", "fencing_token: is required")
    assert await yard.state(task_id) == "assigned"


@pytest.mark.parametrize("call", REPORTS)
async def test_a_report_with_a_token_of_the_future_is_lease_lost(yard, refused, call):
    task_id = await yard.submit()
    lease = await yard.claim()
    assert (await refused(yard.report(call, lease, fencing_token=2, **needed(call)))).code == "lease_lost"
    assert await yard.state(task_id) == "assigned"


@pytest.mark.parametrize("call", REPORTS)
async def test_a_report_of_no_such_host_or_task_is_not_found(yard, refused, call):
    await yard.submit()
    lease = await yard.claim()
    for wrong in ({"host_id": "ghost"}, {"task_id": "tsk_ghost"}, {"task_id": ""}):
        refusal = await refused(yard.report(call, lease, **{**needed(call), **wrong}))
        assert refusal.status is grpc.StatusCode.NOT_FOUND
    assert await yard.late_reports() == 0


@pytest.mark.parametrize("call", [call for call in REPORTS if call != "ReleaseTask"])
@pytest.mark.parametrize("end", ["cancel", "complete", "expire", "release", "deregister"])
async def test_a_report_after_the_lease_has_ended_is_lease_lost_and_changes_nothing(yard, refused, call, end):
    task_id = await yard.submit()
    lease = await yard.claim()
    match end:
        case "cancel":
            await yard.cancel(task_id)
        case "complete":
            await yard.report("CompleteTask", lease, result=Value(string_value="first"))
        case "expire":
            await yard.advance(61)
        case "release":
            await yard.report("ReleaseTask", lease)
        case "deregister":
            await yard.hosts.DeregisterHost(runtime_host_pb2.DeregisterHostRequest(host_id="host"))
            await yard.register()
    before = await yard.get(task_id)
    assert (await refused(yard.report(call, lease, **needed(call)))).code == "lease_lost"
    assert await yard.get(task_id) == before
    assert await yard.late_reports() == 1


# The length of leases


async def test_a_lease_is_as_long_as_was_asked_and_a_minute_if_nothing_was(yard):
    lengths = []
    for asked in (None, 1, 90, 3600):
        await yard.submit()
        claim = await yard.claim(lease_secs=asked)
        lengths.append(round(seconds(claim.lease_expires_at) - yard.clock.now, 3))
    assert lengths == [60, 1, 90, 3600]
    assert [lease.lease_secs for lease in (await yard.leased()).leases] == [60, 1, 90, 3600]


@pytest.mark.parametrize("secs", [0, 3601, 2**32 - 1])
async def test_a_lease_outside_of_its_bounds_is_refused_and_leases_nothing(yard, refused, by_rest, secs):
    task_id = await yard.submit()
    refusal = await refused(yard.claim(lease_secs=secs, metadata=by_rest))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.trailers["x-http-status"] == "400"
    assert "lease_secs" in refusal.message
    assert (await refused(yard.claim_many(3, lease_secs=secs))).code == "bad_request"
    assert await yard.state(task_id) == "queued"
    lease = await yard.claim()
    assert (await refused(yard.report("RenewLease", lease, lease_secs=secs))).code == "bad_request"


async def test_a_renewal_prolongs_to_now_and_the_length_of_the_lease(yard):
    task_id = await yard.submit()
    lease = await yard.claim(lease_secs=30)
    for _ in range(3):
        await yard.advance(20)
        renewed = await yard.report("RenewLease", lease)
        assert renewed.task_id == task_id
        assert seconds(renewed.lease_expires_at) == pytest.approx(yard.clock.now + 30, abs=1e-5)
    await yard.advance(29)
    assert await yard.state(task_id) == "assigned"
    await yard.advance(2)
    assert await yard.state(task_id) == "queued"


async def test_a_renewal_never_shortens(yard):
    task_id = await yard.submit()
    lease = await yard.claim(lease_secs=100)
    renewed = await yard.report("RenewLease", lease, lease_secs=1)
    assert renewed.lease_expires_at == lease.lease_expires_at
    await yard.advance(99)
    assert await yard.state(task_id) == "assigned"


async def test_a_renewal_may_ask_for_more(yard):
    task_id = await yard.submit()
    lease = await yard.claim(lease_secs=10)
    renewed = await yard.report("RenewLease", lease, lease_secs=3600)
    assert seconds(renewed.lease_expires_at) == pytest.approx(yard.clock.now + 3600, abs=1e-5)
    await yard.advance(100)
    assert await yard.state(task_id) == "assigned"


# Waiting for a task


async def test_a_claim_that_waits_is_served_by_a_submit(live):
    waiting = asyncio.ensure_future(live.claim(wait_ms=30_000))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    task_id = await live.submit()
    async with asyncio.timeout(5):
        assert (await waiting).task_id == task_id


async def test_a_claim_of_several_that_waits_is_served_by_a_submit(live):
    waiting = asyncio.ensure_future(live.claim_many(5, wait_ms=30_000))
    await asyncio.sleep(0.05)
    task_id = await live.submit()
    async with asyncio.timeout(5):
        assert [each.lease.task_id for each in (await waiting).assignments] == [task_id]


async def test_a_claim_that_waits_in_vain_answers_none_when_its_time_is_over(live):
    begin = asyncio.get_running_loop().time()
    answer = await live.claim(wait_ms=100)
    assert answer == pb.ClaimTaskResponse(claimed=False)
    assert 0.09 <= asyncio.get_running_loop().time() - begin < 5


async def test_a_waiting_claim_is_served_by_a_release_and_by_a_host_that_leaves(live):
    await live.register("other")
    task_id = await live.submit()
    lease = await live.claim()
    waiting = asyncio.ensure_future(live.claim("other", wait_ms=30_000))
    await asyncio.sleep(0.05)
    await live.report("ReleaseTask", lease)
    async with asyncio.timeout(5):
        assert (await waiting).task_id == task_id
        waiting = asyncio.ensure_future(live.claim(wait_ms=30_000))
        await asyncio.sleep(0.05)
        await live.hosts.DeregisterHost(runtime_host_pb2.DeregisterHostRequest(host_id="other"))
        assert (await waiting).task_id == task_id


async def test_one_task_serves_one_of_many_waiting_claims(live):
    waiting = [asyncio.ensure_future(live.claim(wait_ms=300)) for _ in range(5)]
    await asyncio.sleep(0.05)
    task_id = await live.submit()
    claims = await asyncio.gather(*waiting)
    assert sorted(claim.task_id for claim in claims) == ["", "", "", "", task_id]


async def test_a_claim_whose_caller_went_away_takes_no_task(live):
    waiting = live.claim(wait_ms=30_000)
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.sleep(0.05)
    task_id = await live.submit()
    assert await live.state(task_id) == "queued"
    assert (await live.claim()).fencing_token == 1


async def test_a_claim_that_waits_is_refused_when_its_host_is_deregistered(live, refused):
    waiting = asyncio.ensure_future(live.claim(wait_ms=30_000))
    await asyncio.sleep(0.05)
    await live.hosts.DeregisterHost(runtime_host_pb2.DeregisterHostRequest(host_id="host"))
    async with asyncio.timeout(5):
        assert (await refused(waiting)).code == "not_found"


# Several at once


async def test_a_claim_of_several_answers_leases_and_tasks_in_claim_order(yard):
    late = await yard.submit(priority=5)
    ids = [await yard.submit() for _ in range(3)]
    params = Struct(fields={"x": Value(number_value=1)})
    other = await yard.submit(agent_id="bob", params=params)
    given = (await yard.claim_many(4, lease_secs=90)).assignments
    assert [each.lease.task_id for each in given] == [ids[0], other, ids[1], ids[2]]
    for each in given:
        assert each.lease.task_id == each.task.task_id
        assert (each.lease.host_id, each.lease.fencing_token, each.lease.lease_secs) == ("host", 1, 90)
        assert seconds(each.lease.expires_at) - seconds(each.lease.claimed_at) == pytest.approx(90, abs=1e-5)
        assert word(each.task) == "assigned"
    assert given[1].task.params == params
    assert [each.lease.task_id for each in (await yard.claim_many(4)).assignments] == [late]
    assert not (await yard.claim_many(4)).assignments


@pytest.mark.parametrize("most", [0, 1001, 2**32 - 1])
async def test_a_claim_of_none_or_of_more_than_a_thousand_is_refused(yard, refused, most):
    task_id = await yard.submit()
    refusal = await refused(yard.claim_many(most))
    assert refusal.code == "bad_request"
    assert "max_tasks" in refusal.message
    assert await yard.state(task_id) == "queued"


@pytest.mark.parametrize("most", [1, 1000])
async def test_a_claim_of_one_or_of_a_thousand_is_allowed(yard, most):
    await yard.submit()
    assert len((await yard.claim_many(most)).assignments) == 1


async def test_what_does_not_fit_into_one_answer_stays_in_the_queue_in_its_place(open_leases):
    yard = await open_leases(max_inflight=100, max_per_agent_inflight=100)
    bulky = Struct(fields={"text": Value(string_value="x" * 250_000)})
    ids = [await yard.submit(params=bulky) for _ in range(20)]
    found = []
    while given := (await yard.claim_many(100)).assignments:
        found.append([each.lease.task_id for each in given])
    assert [task_id for part in found for task_id in part] == ids
    assert len(found) == 2
    assert len((await yard.leased()).leases) == 20


# Start, progress, complete, fail


async def test_a_start_may_be_repeated(yard):
    task_id = await yard.submit()
    lease = await yard.claim()
    first = await yard.report("StartTask", lease)
    assert (first.task_id, word(first)) == (task_id, "running")
    started_at = (await yard.get(task_id)).started_at
    await yard.advance(3)
    assert await yard.report("StartTask", lease) == first
    assert (await yard.get(task_id)).started_at == started_at
    assert await yard.late_reports() == 0


async def test_progress_is_visible_on_the_task_and_counts_as_the_start(yard):
    task_id = await yard.submit()
    lease = await yard.claim()
    given = ParseDict({"fraction": 0.25, "message": "page 1", "details": {"n": [1, None]}}, Progress())
    answer = await yard.report("ReportProgress", lease, progress=given)
    assert (answer.task_id, word(answer)) == (task_id, "running")
    task = await yard.get(task_id)
    assert word(task) == "running"
    assert seconds(task.started_at) == pytest.approx(yard.clock.now, abs=1e-5)
    assert (task.progress.fraction, task.progress.message) == (0.25, "page 1")
    assert task.progress.details == given.details
    assert seconds(task.progress.reported_at) == pytest.approx(yard.clock.now, abs=1e-5)


async def test_the_last_progress_is_shown_and_outlives_the_task(yard):
    task_id = await yard.submit()
    lease = await yard.claim()
    await yard.report("ReportProgress", lease, progress=Progress(fraction=0.25, message="page 1"))
    forged = Progress(fraction=0.5)
    forged.reported_at.FromSeconds(1)
    await yard.advance(2)
    await yard.report("ReportProgress", lease, progress=forged)
    shown = (await yard.get(task_id)).progress
    assert (shown.fraction, shown.HasField("message")) == (0.5, False)
    assert seconds(shown.reported_at) == pytest.approx(yard.clock.now, abs=1e-5)
    await yard.report("CompleteTask", lease)
    assert (await yard.get(task_id)).progress == shown


async def test_completing_without_a_start_counts_as_both(yard):
    task_id = await yard.submit()
    lease = await yard.claim()
    result = ParseDict({"loss": 0.5, "steps": [1, None]}, Value())
    answer = await yard.report("CompleteTask", lease, result=result)
    assert (answer.task_id, word(answer)) == (task_id, "done")
    task = await yard.get(task_id)
    assert task.result == result
    assert task.started_at == task.completed_at
    assert (task.latency_ms, task.HasField("error")) == (0, False)
    assert not (await yard.leased()).leases


async def test_a_task_may_be_done_without_a_result(yard):
    task_id = await yard.submit()
    await yard.report("CompleteTask", await yard.claim())
    assert not (await yard.get(task_id)).HasField("result")


async def test_a_failure_without_a_start_counts_as_both(yard):
    task_id = await yard.submit()
    answer = await yard.report("FailTask", await yard.claim(), error="element not found", retryable=False, code="gone")
    assert (answer.task_id, word(answer)) == (task_id, "failed")
    task = await yard.get(task_id)
    assert task.error == "element not found"
    assert task.started_at == task.completed_at


async def test_a_failure_needs_an_error(yard, refused):
    task_id = await yard.submit()
    lease = await yard.claim()
    refusal = await refused(yard.report("FailTask", lease))
    assert (refusal.code, refusal.message) == ("bad_request", "error: is required")
    assert await yard.state(task_id) == "assigned"


@pytest.mark.parametrize("call", ["CompleteTask", "FailTask"])
async def test_an_end_that_is_reported_twice_counts_once(yard, refused, call):
    await yard.submit()
    lease = await yard.claim()
    await yard.report(call, lease, **needed(call))
    assert (await refused(yard.report(call, lease, **needed(call)))).code == "lease_lost"
    metrics = (await yard.stats_stub.GetStats(stats_pb2.GetStatsRequest())).metrics
    assert metrics.tasks_completed + metrics.tasks_failed == 1
    assert metrics.late_reports == 1


# Release


async def test_a_release_gives_the_task_back_to_its_place(yard):
    first, second = await yard.submit(), await yard.submit()
    lease = await yard.claim()
    answer = await yard.report("ReleaseTask", lease)
    assert (answer.task_id, word(answer)) == (first, "queued")
    assert not (await yard.leased()).leases
    again = await yard.claim()
    assert (again.task_id, again.fencing_token) == (first, 2)
    assert (await yard.claim()).task_id == second


async def test_a_running_task_can_be_released_and_keeps_its_first_start(yard):
    task_id = await yard.submit()
    lease = await yard.claim()
    await yard.report("StartTask", lease)
    started_at = (await yard.get(task_id)).started_at
    await yard.report("ReleaseTask", lease)
    await yard.advance(5)
    await yard.report("StartTask", await yard.claim())
    assert (await yard.get(task_id)).started_at == started_at


async def test_a_release_is_no_delivery_and_an_expiry_is_one(open_leases, frozen_clock):
    yard = await open_leases(frozen_clock, max_deliveries=2)
    task_id = await yard.submit()
    for _ in range(4):
        await yard.report("ReleaseTask", await yard.claim())
    for state in ("queued", "failed"):
        assert (await yard.claim()).task_id == task_id
        await yard.advance(61)
        assert await yard.state(task_id) == state
    assert (await yard.get(task_id)).error == "lease expired"


# Tokens


@pytest.mark.parametrize("call", ["ReportProgress", "CompleteTask", "FailTask"])
@pytest.mark.parametrize("tokens", [0, 5])
async def test_every_report_may_carry_the_tokens_of_the_attempt(yard, call, tokens):
    task_id = await yard.submit()
    assert not (await yard.get(task_id)).HasField("tokens_used")
    await yard.report(call, await yard.claim(), tokens_used=tokens, **needed(call))
    task = await yard.get(task_id)
    assert task.HasField("tokens_used")
    assert task.tokens_used == tokens


@pytest.mark.parametrize("call", ["ReportProgress", "CompleteTask", "FailTask"])
async def test_a_stale_report_counts_no_tokens(yard, refused, call):
    task_id = await yard.submit(token_limit=1)
    lease = await yard.claim()
    await yard.report("ReleaseTask", lease)
    assert (await refused(yard.report(call, lease, tokens_used=5, **needed(call)))).code == "lease_lost"
    task = await yard.get(task_id)
    assert (task.state, task.HasField("tokens_used")) == (Task.queued, False)


# List leases


async def test_live_leases_are_listed_oldest_claim_first(yard):
    assert not (await yard.leased()).leases
    await yard.register("other")
    ids = [await yard.submit() for _ in range(4)]
    claims = [await yard.claim(host_id) for host_id in ("other", "host", "other", "host")]
    await yard.report("CompleteTask", claims[1])
    listed = (await yard.leased()).leases
    assert [(lease.task_id, lease.host_id) for lease in listed] == [
        (ids[0], "other"),
        (ids[2], "other"),
        (ids[3], "host"),
    ]
    assert listed[2].expires_at == claims[3].lease_expires_at
    assert listed[2].fencing_token == claims[3].fencing_token


async def test_leases_are_filtered_by_host(yard):
    await yard.register("other")
    for host_id in ("host", "other", "host"):
        await yard.submit()
        await yard.claim(host_id)
    assert [lease.host_id for lease in (await yard.leased("host")).leases] == ["host", "host"]
    assert [lease.host_id for lease in (await yard.leased("other")).leases] == ["other"]


@pytest.mark.parametrize(("size", "pages"), [(0, [5]), (1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (1000, [5])])
@pytest.mark.parametrize("host_id", [None, "host"])
async def test_pages_of_leases_are_whole_and_in_order(yard, host_id, size, pages):
    ids = []
    for _ in range(5):
        ids.append(await yard.submit())
        await yard.claim()
    found, token = [], None
    while True:
        answer = await yard.leased(host_id, page_size=size, page_token=token)
        found.append([lease.task_id for lease in answer.leases])
        if not answer.HasField("next_page_token"):
            break
        token = answer.next_page_token
    assert [len(page) for page in found] == pages
    assert [task_id for page in found for task_id in page] == ids


async def test_a_renewed_lease_keeps_its_place_in_the_list(yard):
    ids = [await yard.submit(), await yard.submit()]
    first, _ = await yard.claim(), await yard.claim()
    await yard.report("RenewLease", first, lease_secs=3600)
    assert [lease.task_id for lease in (await yard.leased()).leases] == ids


async def test_a_token_of_another_filter_is_refused(yard, refused):
    await yard.register("other")
    for host_id in ("host", "host"):
        await yard.submit()
        await yard.claim(host_id)
    token = (await yard.leased("host", page_size=1)).next_page_token
    for wrong in ({}, {"host_id": "other"}):
        assert (await refused(yard.leased(page_token=token, **wrong))).code == "bad_request"


# Too large, too deep


async def test_a_result_that_is_too_large_is_refused_and_the_lease_lives_on(yard, refused, by_rest):
    task_id = await yard.submit()
    lease = await yard.claim()
    large = Value(string_value="x" * 262_144)
    refusal = await refused(yard.report("CompleteTask", lease, result=large, metadata=by_rest))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.code == "too_large"
    assert refusal.trailers["x-http-status"] == "413"
    assert await yard.state(task_id) == "assigned"
    exact = Value(string_value="x" * 262_140)
    assert exact.ByteSize() == 262_144
    assert word(await yard.report("CompleteTask", lease, result=exact)) == "done"
    assert (await yard.get(task_id)).result == exact


async def test_a_result_that_nests_too_deep_is_refused_and_the_lease_lives_on(yard, refused):
    task_id = await yard.submit()
    lease = await yard.claim()
    refusal = await refused(yard.report("CompleteTask", lease, result=nested(31)))
    assert refusal.code == "bad_request"
    assert "result" in refusal.message
    assert await yard.state(task_id) == "assigned"
    assert word(await yard.report("CompleteTask", lease, result=nested(30))) == "done"


async def test_progress_that_is_too_large_or_too_deep_is_refused(yard, refused):
    task_id = await yard.submit()
    lease = await yard.claim()
    large = Progress(details=Struct(fields={"text": Value(string_value="x" * 262_144)}))
    assert (await refused(yard.report("ReportProgress", lease, progress=large))).code == "too_large"
    assert (await refused(yard.report("ReportProgress", lease, progress=Progress(message="x" * 262_144)))).code == (
        "too_large"
    )
    deep = Progress(details=Struct(fields={"in": nested(30)}))
    assert (await refused(yard.report("ReportProgress", lease, progress=deep))).code == "bad_request"
    task = await yard.get(task_id)
    assert (word(task), task.HasField("progress")) == ("assigned", False)


async def test_a_result_with_a_number_that_json_has_not_is_refused(yard, refused):
    task_id = await yard.submit()
    lease = await yard.claim()
    for number in (float("nan"), float("inf")):
        refusal = await refused(yard.report("CompleteTask", lease, result=Value(number_value=number)))
        assert refusal.code == "bad_request"
    assert await yard.state(task_id) == "assigned"
