"""Commands on leases: claim, renew, report, list."""

import pytest

from taskyard_server.core.errors import BadRequest, LeaseLost, NotFound
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.task import TaskState
from tests import reporting
from tests.engine.lease_commands import NS, REPORTS, lease_of
from tests.live import live


async def test_a_task_goes_from_claim_to_start_to_done(engine, host, clock, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    lease = await lease_of(engine, host)
    assert (lease.task.id, lease.token, lease.expires_at) == (task.id, 1, clock.now + 60)
    assert (await engine.tasks.get(NS, task.id, show=live)).state == "assigned"
    clock.now += 1
    assert (await reporting.start(engine, NS, host, task.id, lease.token)).state == "running"
    clock.now += 1
    done = await reporting.complete(engine, NS, host, task.id, lease.token, b"result")
    assert (done.state, done.result, done.latency_ms) == ("done", b"result", 1000)


async def test_a_task_may_be_completed_without_a_start(engine, host, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    lease = await lease_of(engine, host)
    done = await reporting.complete(engine, NS, host, lease.task.id, lease.token, None)
    assert (done.state, done.started_at) == ("done", done.completed_at)


async def test_a_task_may_fail(engine, host, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    lease = await lease_of(engine, host)
    failed = await reporting.fail(engine, NS, host, lease.task.id, lease.token, "no such element")
    assert (failed.state, failed.error) == ("failed", "no such element")


async def test_a_released_task_can_be_claimed_again_under_a_new_token(engine, host, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    lease = await lease_of(engine, host)
    assert (await reporting.release(engine, NS, host, lease.task.id, lease.token)).state == "queued"
    assert (await lease_of(engine, host)).token == lease.token + 1


async def test_a_renewed_lease_ends_later(engine, host, clock, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    lease = await lease_of(engine, host, 10)
    clock.now += 5
    assert (await engine.leases.renew(NS, host, lease.task.id, lease.token, show=live)).expires_at == clock.now + 10
    assert (await engine.leases.renew(NS, host, lease.task.id, lease.token, 30, show=live)).expires_at == clock.now + 30


async def test_a_claim_returns_up_to_its_count_in_claim_order(engine, host, submission):
    for agent, priority in [("ann", 1), ("ann", 0), ("bob", 0)]:
        await engine.tasks.submit(NS, submission(agent, priority=priority), show=live)
    leases = await engine.leases.claim(NS, host, 2, show=live)
    assert [(lease.task.agent_id, lease.task.priority) for lease in leases] == [("ann", 0), ("bob", 0)]
    assert len(await engine.leases.claim(NS, host, 5, show=live)) == 1


@pytest.mark.parametrize("secs", [0, 0.5, 3601])
async def test_a_lease_outside_of_one_second_to_an_hour_is_a_bad_request(engine, host, submission, secs):
    await engine.tasks.submit(NS, submission(), show=live)
    with pytest.raises(BadRequest, match="lease_secs"):
        await engine.leases.claim(NS, host, 1, secs, show=live)
    with pytest.raises(BadRequest, match="lease_secs"):
        await engine.leases.claim(NS, host, 1, secs, wait_secs=10, show=live)


async def test_a_release_of_an_ended_lease_is_accepted_and_changes_nothing(engine, host, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    stale = await lease_of(engine, host)
    await reporting.release(engine, NS, host, task.id, stale.token)
    lease = await lease_of(engine, host)
    assert (await reporting.release(engine, NS, host, task.id, stale.token)).state == "assigned"
    assert (await engine.leases.list_leases(NS, 0, show=live)) == [lease]


async def test_reports_made_together_have_separate_outcomes_in_order(engine, host, submission):
    first, second = (
        await engine.tasks.submit(NS, submission(), show=live),
        await engine.tasks.submit(NS, submission(), show=live),
    )
    one, two = await engine.leases.claim(NS, host, 2, show=live)
    outcomes = await engine.leases.report(
        NS,
        host,
        [
            Report(ReportKind.STARTED, first.id, one.token),
            Report(ReportKind.STARTED, first.id, one.token),
            Report(ReportKind.COMPLETED, second.id, two.token + 1),
            Report(ReportKind.COMPLETED, first.id, one.token, b"result"),
            Report(ReportKind.STARTED, "tsk_0", 1),
            Report(ReportKind.STARTED, second.id, two.token),
        ],
    )
    assert [outcome if isinstance(outcome, TaskState) else outcome.code for outcome in outcomes] == [
        "running",
        "running",
        "lease_lost",
        "done",
        "not_found",
        "running",
    ]


@pytest.mark.parametrize("report", REPORTS)
async def test_a_stale_report_is_lease_lost_and_changes_nothing(engine, host, clock, submission, report):
    task = await engine.tasks.submit(NS, submission(), show=live)
    stale = await lease_of(engine, host)
    await reporting.release(engine, NS, host, task.id, stale.token)
    lease = await lease_of(engine, host)
    await clock.run_pending()
    received = []
    engine.subscribe(lambda _, events: received.extend(events))
    with pytest.raises(LeaseLost):
        await REPORTS[report](engine, host, task.id, stale.token)
    await clock.run_pending()
    assert received == []
    got = await engine.tasks.get(NS, task.id, show=live)
    assert (got.state, got.token, got.result, got.error) == ("assigned", lease.token, None, None)
    assert (await engine.admin.stats(NS)).counters.late_reports == 1


@pytest.mark.parametrize("report", REPORTS)
async def test_a_report_of_an_unregistered_host_is_not_found(engine, host, submission, report):
    await engine.tasks.submit(NS, submission(), show=live)
    lease = await lease_of(engine, host)
    with pytest.raises(NotFound, match="runtime host not found"):
        await REPORTS[report](engine, "stranger", lease.task.id, lease.token)


async def test_progress_is_kept_and_starts_the_task(engine, host, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    lease = await lease_of(engine, host)
    task = await reporting.progress(engine, NS, host, lease.task.id, lease.token, b"half")
    assert (task.state, task.progress) == ("running", b"half")


async def test_a_claim_can_select_a_project(engine, host, submission):
    for project in (None, "blue", "red"):
        await engine.tasks.submit(NS, submission(project=project), show=live)
    (lease,) = await engine.leases.claim(NS, host, 5, project="red", show=live)
    assert lease.task.options.project == "red"


async def test_live_leases_are_listed_in_the_order_of_their_grants(engine, host, submission):
    await engine.hosts.register(NS, "other", None, HostProfile(), show=live)
    for _ in range(3):
        await engine.tasks.submit(NS, submission(), show=live)
    leases = [await lease_of(engine, name) for name in (host, "other", host)]
    assert await engine.leases.list_leases(NS, 0, show=live) == leases
    assert await engine.leases.list_leases(NS, leases[0].token, show=live) == leases[1:]
    assert await engine.leases.list_leases(NS, 0, "other", show=live) == leases[1:2]
    with pytest.raises(NotFound, match="runtime host not found"):
        await engine.leases.list_leases(NS, 0, "stranger", show=live)
