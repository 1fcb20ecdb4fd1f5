"""The contract of the port, command by command. Waiting, time, listings and listeners have files of their own."""

import re

import pytest

from taskyard_server.core.errors import BadRequest, Conflict, LeaseLost, NotFound, QueueFull, Refusal
from taskyard_server.core.hosts import HostProfile, HostStatus
from taskyard_server.core.limits import Limits
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.task import TaskState
from taskyard_server.engine.port import TaskFilter
from tests import reporting

NS = "default"


async def lease_of(engine, host, lease_secs=None):
    """The lease of the one task that waits."""
    (lease,) = await engine.leases.claim(NS, host, 1, lease_secs)
    return lease


# Commands of agents


async def test_a_submitted_task_is_queued_and_can_be_got(engine, clock, asked):
    task = await engine.tasks.submit(NS, asked(params=b"{}", priority=3))
    assert (task.state, task.agent_id, task.action, task.params, task.priority) == ("queued", "ann", "click", b"{}", 3)
    assert (task.created_at, task.deadline, task.position) == (clock.now, clock.now + 60, 1)
    got = await engine.tasks.get(NS, task.id)
    assert (got.id, got.state) == (task.id, "queued")


async def test_a_past_deadline_is_a_bad_request_and_leaves_no_task(engine, clock, asked):
    with pytest.raises(BadRequest, match="deadline"):
        await engine.tasks.submit(NS, asked(deadline=clock.now))
    assert (await engine.admin.stats(NS)).counters.submitted == 0


async def test_a_full_queue_refuses_and_keeps_the_task_as_rejected(make_engine, asked):
    engine = make_engine(max_queue_size=1)
    await engine.tasks.submit(NS, asked())
    with pytest.raises(QueueFull, match="rejected: global queue full") as full:
        await engine.tasks.submit(NS, asked())
    assert full.value.details == {"agentId": "ann", "queued": 1, "maxQueue": 1, "maxPerAgent": 100}
    assert (await engine.tasks.get(NS, full.value.task.id)).state == "rejected"


async def test_a_task_that_never_was_is_not_found(engine, asked):
    await engine.tasks.submit(NS, asked())
    for task_id in ("", "tsk_1", "tsk_" + "0" * 32):
        with pytest.raises(NotFound, match="task not found"):
            await engine.tasks.get(NS, task_id)
        with pytest.raises(NotFound, match="task not found"):
            await engine.tasks.cancel(NS, task_id)


async def test_a_cancelled_task_is_cancelled_once(engine, asked):
    task = await engine.tasks.submit(NS, asked())
    assert (await engine.tasks.cancel(NS, task.id)).state == "cancelled"
    with pytest.raises(Conflict, match="task is already cancelled"):
        await engine.tasks.cancel(NS, task.id)


# Batches


async def test_a_batch_admits_its_tasks_one_by_one(make_engine, asked):
    engine = make_engine(max_per_agent=2)
    admitted = await engine.tasks.submit_batch(NS, [asked(action=action) for action in ("one", "two", "three")])
    first, second, third = admitted.outcomes
    assert [(task.action, task.state, task.position) for task in (first, second)] == [
        ("one", "queued", 1),
        ("two", "queued", 2),
    ]
    assert isinstance(third, QueueFull)
    assert third.task.state == "rejected"
    assert {task.options.batch_id for task in (first, second, third.task)} == {admitted.batch.id}
    assert list((await engine.tasks.get_batch(NS, admitted.batch.id)).tasks) == [first.id, second.id, third.task.id]


async def test_a_bad_task_anywhere_in_a_batch_admits_none(engine, clock, asked):
    with pytest.raises(BadRequest):
        await engine.tasks.submit_batch(NS, [asked(), asked(deadline=clock.now - 1)])
    assert (await engine.admin.stats(NS)).counters.submitted == 0


async def test_batch_and_task_ids_are_of_the_documented_shape(engine, asked):
    admitted = await engine.tasks.submit_batch(NS, [asked()])
    assert re.fullmatch(r"bat_[0-9a-f]{32}", admitted.batch.id)
    assert re.fullmatch(r"tsk_[0-9a-f]{32}", admitted.outcomes[0].id)


async def test_cancelling_a_batch_cancels_what_has_not_ended(engine, host, asked):
    admitted = await engine.tasks.submit_batch(NS, [asked() for _ in range(3)])
    lease = await lease_of(engine, host)
    await reporting.complete(engine, NS, host, lease.task.id, lease.token, None)
    assert await engine.tasks.cancel_batch(NS, admitted.batch.id) == 2
    assert [task.state.value for task in admitted.outcomes] == ["done", "cancelled", "cancelled"]


async def test_a_batch_that_never_was_is_not_found(engine, asked):
    await engine.tasks.submit(NS, asked())
    with pytest.raises(NotFound, match="batch not found"):
        await engine.tasks.get_batch(NS, "bat_1")
    with pytest.raises(NotFound, match="batch not found"):
        await engine.tasks.cancel_batch(NS, "bat_1")


# Commands of hosts


async def test_a_host_is_registered_and_replaced_under_its_id(engine, clock):
    host = await engine.hosts.register(NS, "h1", "One", HostProfile(frozenset({"gpu"})))
    assert (host.id, host.display_name, host.registered_at) == ("h1", "One", clock.now)
    clock.now += 10
    again = await engine.hosts.register(NS, "h1", None, HostProfile())
    assert (again.display_name, again.profile, again.registered_at) == ("h1", HostProfile(), clock.now - 10)


async def test_a_task_goes_from_claim_to_start_to_done(engine, host, clock, asked):
    task = await engine.tasks.submit(NS, asked())
    lease = await lease_of(engine, host)
    assert (lease.task.id, lease.token, lease.expires_at) == (task.id, 1, clock.now + 60)
    assert (await engine.tasks.get(NS, task.id)).state == "assigned"
    clock.now += 1
    assert (await reporting.start(engine, NS, host, task.id, lease.token)).state == "running"
    clock.now += 1
    done = await reporting.complete(engine, NS, host, task.id, lease.token, b"result")
    assert (done.state, done.result, done.latency_ms) == ("done", b"result", 1000)


async def test_a_task_may_be_completed_without_a_start(engine, host, asked):
    await engine.tasks.submit(NS, asked())
    lease = await lease_of(engine, host)
    done = await reporting.complete(engine, NS, host, lease.task.id, lease.token, None)
    assert (done.state, done.started_at) == ("done", done.completed_at)


async def test_a_task_may_fail(engine, host, asked):
    await engine.tasks.submit(NS, asked())
    lease = await lease_of(engine, host)
    failed = await reporting.fail(engine, NS, host, lease.task.id, lease.token, "no such element")
    assert (failed.state, failed.error) == ("failed", "no such element")


async def test_a_released_task_can_be_claimed_again_under_a_new_token(engine, host, asked):
    await engine.tasks.submit(NS, asked())
    lease = await lease_of(engine, host)
    assert (await reporting.release(engine, NS, host, lease.task.id, lease.token)).state == "queued"
    assert (await lease_of(engine, host)).token == lease.token + 1


async def test_a_renewed_lease_ends_later(engine, host, clock, asked):
    await engine.tasks.submit(NS, asked())
    lease = await lease_of(engine, host, 10)
    clock.now += 5
    assert (await engine.leases.renew(NS, host, lease.task.id, lease.token)).expires_at == clock.now + 10
    assert (await engine.leases.renew(NS, host, lease.task.id, lease.token, 30)).expires_at == clock.now + 30


async def test_a_claim_takes_as_many_as_it_asks_for_in_claim_order(engine, host, asked):
    for agent, priority in [("ann", 1), ("ann", 0), ("bob", 0)]:
        await engine.tasks.submit(NS, asked(agent, priority=priority))
    leases = await engine.leases.claim(NS, host, 2)
    assert [(lease.task.agent_id, lease.task.priority) for lease in leases] == [("ann", 0), ("bob", 0)]
    assert len(await engine.leases.claim(NS, host, 5)) == 1


@pytest.mark.parametrize("secs", [0, 0.5, 3601])
async def test_a_lease_outside_of_one_second_to_an_hour_is_a_bad_request(engine, host, asked, secs):
    await engine.tasks.submit(NS, asked())
    with pytest.raises(BadRequest, match="lease_secs"):
        await engine.leases.claim(NS, host, 1, secs)
    with pytest.raises(BadRequest, match="lease_secs"):
        await engine.leases.claim(NS, host, 1, secs, wait_secs=10)


REPORTS = {
    "start": lambda engine, host, task_id, token: reporting.start(engine, NS, host, task_id, token),
    "renew": lambda engine, host, task_id, token: engine.leases.renew(NS, host, task_id, token),
    "progress": lambda engine, host, task_id, token: reporting.progress(engine, NS, host, task_id, token, b"late"),
    "complete": lambda engine, host, task_id, token: reporting.complete(engine, NS, host, task_id, token, b"late"),
    "fail": lambda engine, host, task_id, token: reporting.fail(engine, NS, host, task_id, token, "late"),
}


async def test_released_may_be_said_of_a_lease_that_has_ended_and_changes_nothing(engine, host, asked):
    task = await engine.tasks.submit(NS, asked())
    stale = await lease_of(engine, host)
    await reporting.release(engine, NS, host, task.id, stale.token)
    lease = await lease_of(engine, host)
    assert (await reporting.release(engine, NS, host, task.id, stale.token)).state == "assigned"
    assert (await engine.leases.list_leases(NS, 0)) == [lease]


async def test_what_a_host_reports_at_once_is_answered_in_order_and_each_by_itself(engine, host, asked):
    first, second = await engine.tasks.submit(NS, asked()), await engine.tasks.submit(NS, asked())
    one, two = await engine.leases.claim(NS, host, 2)
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


async def test_tasks_submitted_at_once_are_admitted_each_by_itself(engine, asked, clock):
    late = asked(deadline=clock.now - 1)
    outcomes = await engine.tasks.submit_each(NS, [asked("ann"), late, asked("bob")])
    assert [isinstance(outcome, Refusal) or outcome.agent_id for outcome in outcomes] == ["ann", True, "bob"]
    assert (await engine.admin.stats(NS)).queued == 2


@pytest.mark.parametrize("report", REPORTS)
async def test_a_stale_report_is_lease_lost_and_changes_nothing(engine, host, clock, asked, report):
    task = await engine.tasks.submit(NS, asked())
    stale = await lease_of(engine, host)
    await reporting.release(engine, NS, host, task.id, stale.token)
    lease = await lease_of(engine, host)
    await clock.settle()
    heard = []
    engine.subscribe(lambda _, happened: heard.extend(happened))
    with pytest.raises(LeaseLost):
        await REPORTS[report](engine, host, task.id, stale.token)
    await clock.settle()
    assert heard == []
    got = await engine.tasks.get(NS, task.id)
    assert (got.state, got.token, got.result, got.error) == ("assigned", lease.token, None, None)
    assert (await engine.admin.stats(NS)).counters.late_reports == 1


@pytest.mark.parametrize("report", REPORTS)
async def test_a_report_of_a_host_that_is_not_registered_is_not_found(engine, host, asked, report):
    await engine.tasks.submit(NS, asked())
    lease = await lease_of(engine, host)
    with pytest.raises(NotFound, match="runtime host not found"):
        await REPORTS[report](engine, "stranger", lease.task.id, lease.token)


async def test_progress_is_kept_and_counts_as_a_start(engine, host, asked):
    await engine.tasks.submit(NS, asked())
    lease = await lease_of(engine, host)
    task = await reporting.progress(engine, NS, host, lease.task.id, lease.token, b"half")
    assert (task.state, task.progress) == ("running", b"half")


async def test_a_heartbeat_is_a_sign_of_life_with_what_the_host_says_of_itself(engine, host, clock):
    clock.now += 10
    beating = await engine.hosts.heartbeat(NS, host, HostStatus.BUSY, b"cpu")
    assert (beating.last_heartbeat_at, beating.reported_status, beating.machine) == (clock.now, "busy", b"cpu")


async def test_a_draining_host_gets_nothing_new(engine, host, asked):
    await engine.tasks.submit(NS, asked())
    assert (await engine.hosts.drain(NS, host)).draining
    assert await engine.leases.claim(NS, host) == []


async def test_heartbeats_and_drains_of_a_host_that_is_not_registered_are_not_found(engine, asked):
    await engine.tasks.submit(NS, asked())
    for call in (engine.hosts.heartbeat, engine.hosts.drain):
        with pytest.raises(NotFound, match="runtime host not found"):
            await call(NS, "stranger")


async def test_a_claim_may_ask_for_one_project(engine, host, asked):
    for project in (None, "blue", "red"):
        await engine.tasks.submit(NS, asked(project=project))
    (lease,) = await engine.leases.claim(NS, host, 5, project="red")
    assert lease.task.options.project == "red"


async def test_hosts_are_listed_in_the_order_in_which_they_first_registered(engine):
    for name in ("one", "two", "three", "one"):
        await engine.hosts.register(NS, name, None, HostProfile())
    await engine.hosts.register("other", "four", None, HostProfile())
    hosts = await engine.hosts.list_hosts(NS, 0)
    assert [host.id for host in hosts] == ["one", "two", "three"]
    assert [host.id for host in await engine.hosts.list_hosts(NS, hosts[0].number)] == ["two", "three"]


async def test_live_leases_are_listed_in_the_order_in_which_they_were_granted(engine, host, asked):
    await engine.hosts.register(NS, "other", None, HostProfile())
    for _ in range(3):
        await engine.tasks.submit(NS, asked())
    leases = [await lease_of(engine, name) for name in (host, "other", host)]
    assert await engine.leases.list_leases(NS, 0) == leases
    assert await engine.leases.list_leases(NS, leases[0].number) == leases[1:]
    assert await engine.leases.list_leases(NS, 0, "other") == leases[1:2]
    with pytest.raises(NotFound, match="runtime host not found"):
        await engine.leases.list_leases(NS, 0, "stranger")


async def test_claims_and_deregistering_of_a_host_that_is_not_registered_are_not_found(engine, asked):
    await engine.tasks.submit(NS, asked())
    with pytest.raises(NotFound, match="runtime host not found"):
        await engine.leases.claim(NS, "stranger", wait_secs=10)
    with pytest.raises(NotFound, match="runtime host not found"):
        await engine.hosts.deregister(NS, "stranger")


async def test_with_a_host_its_leases_go(engine, host, asked):
    task = await engine.tasks.submit(NS, asked())
    await lease_of(engine, host)
    await engine.hosts.deregister(NS, host)
    assert (await engine.tasks.get(NS, task.id)).state == "queued"


async def test_the_tab_executor_takes_plain_tasks_only_while_no_runtime_host_is_there(engine, asked):
    await engine.hosts.register(NS, "tabs", None, HostProfile(), built_in=True)
    await engine.tasks.submit(NS, asked())
    (lease,) = await engine.leases.claim(NS, "tabs")
    await reporting.release(engine, NS, "tabs", lease.task.id, lease.token)
    await engine.hosts.register(NS, "host", None, HostProfile(project="red"))
    assert await engine.leases.claim(NS, "tabs") == []


# Figures and limits


async def test_the_figures_are_those_of_the_moment(engine, host, asked):
    for agent in ("ann", "ann", "bob"):
        await engine.tasks.submit(NS, asked(agent))
    await lease_of(engine, host)
    stats = await engine.admin.stats(NS)
    assert (stats.queued, stats.inflight, stats.counters.submitted, stats.counters.dispatched) == (2, 1, 3, 1)
    assert {agent: (its.queued, its.inflight) for agent, its in stats.agents.items()} == {"ann": (1, 1), "bob": (1, 0)}
    assert stats.limits == Limits()


async def test_new_limits_hold_at_once_in_every_namespace_also_in_later_ones(make_engine, asked):
    engine = make_engine(max_queue_size=1)
    await engine.tasks.submit(NS, asked())
    engine.admin.reconfigure(Limits(max_queue_size=2))
    await engine.tasks.submit(NS, asked())
    for _ in range(2):
        await engine.tasks.submit("later", asked())
    for namespace in (NS, "later"):
        with pytest.raises(QueueFull):
            await engine.tasks.submit(namespace, asked())
        assert (await engine.admin.stats(namespace)).limits.max_queue_size == 2


async def test_the_time_of_the_engine_is_its_clocks(engine, clock):
    clock.now += 5
    assert engine.now() == clock.now


# Ids


async def ids(engine, asked):
    tasks = [await engine.tasks.submit(NS, asked()) for _ in range(5)]
    batch = await engine.tasks.submit_batch(NS, [asked(), asked()])
    return [task.id for task in tasks] + [batch.batch.id] + [task.id for task in batch.outcomes]


async def test_ids_are_repeatable_with_a_seed(make_engine, asked):
    assert await ids(make_engine(seed=7), asked) == await ids(make_engine(seed=7), asked)


async def test_ids_differ_with_another_seed_and_without_one(make_engine, asked):
    made = [await ids(make_engine(seed=seed), asked) for seed in (7, 8, None, None)]
    assert len({task_id for some in made for task_id in some}) == 4 * 8


# Namespaces


async def test_namespaces_never_mix(make_engine, asked):
    engine = make_engine(max_queue_size=2, max_inflight=1)
    for namespace in ("red", "blue"):
        await engine.hosts.register(namespace, "host", None, HostProfile())
    red = [await engine.tasks.submit("red", asked()) for _ in range(2)]
    batch = await engine.tasks.submit_batch("blue", [asked()])
    (blue,) = batch.outcomes

    with pytest.raises(QueueFull):
        await engine.tasks.submit("red", asked())
    with pytest.raises(NotFound):
        await engine.tasks.get("blue", red[0].id)
    with pytest.raises(NotFound):
        await engine.tasks.cancel("red", blue.id)
    with pytest.raises(NotFound):
        await engine.tasks.get_batch("red", batch.batch.id)
    with pytest.raises(NotFound):
        await engine.tasks.cancel_batch("red", batch.batch.id)

    (red_lease,) = await engine.leases.claim("red", "host", 5)
    (blue_lease,) = await engine.leases.claim("blue", "host", 5)
    assert (red_lease.task.id, blue_lease.task.id) == (red[0].id, blue.id)
    with pytest.raises(NotFound):
        await reporting.complete(engine, "blue", "host", red[0].id, red_lease.token, None)
    await engine.hosts.deregister("red", "host")
    with pytest.raises(NotFound):
        await engine.leases.claim("red", "host")
    assert (await reporting.complete(engine, "blue", "host", blue.id, blue_lease.token, None)).state == "done"

    red_stats, blue_stats = await engine.admin.stats("red"), await engine.admin.stats("blue")
    assert (red_stats.counters.submitted, red_stats.queued, red_stats.counters.rejected) == (2, 2, 1)
    assert (blue_stats.counters.submitted, blue_stats.queued, blue_stats.counters.completed) == (1, 0, 1)
    totals = engine.admin.totals()
    assert (totals.namespaces, totals.queued, totals.counters.submitted) == (2, 2, 3)


async def read(engine, namespace):
    """Everything that only looks."""
    stats = await engine.admin.stats(namespace)
    assert (stats.queued, stats.counters.submitted, stats.agents) == (0, 0, {})
    page = await engine.tasks.list_tasks(namespace, TaskFilter(), 0, 10)
    assert (page.tasks, page.next_after) == ([], None)
    assert await engine.hosts.list_hosts(namespace, 0) == await engine.leases.list_leases(namespace, 0) == []
    for look in (engine.tasks.get, engine.tasks.get_batch):
        with pytest.raises(NotFound):
            await look(namespace, "anything")
    with pytest.raises(NotFound, match="task not found"):
        await engine.tasks.wait(namespace, "anything", 10)


async def test_reads_of_a_namespace_that_is_not_known_create_nothing(engine):
    await read(engine, "made up")
    assert engine.admin.totals().namespaces == 0


async def test_commands_about_what_is_not_there_create_no_namespace(engine):
    """Names of namespaces are made up by callers; only submits and registrations make one."""
    calls = [
        engine.tasks.cancel("made up", "tsk_1"),
        engine.tasks.cancel_batch("made up", "bat_1"),
        engine.hosts.deregister("made up", "host"),
        engine.hosts.heartbeat("made up", "host"),
        engine.hosts.drain("made up", "host"),
        engine.leases.claim("made up", "host", wait_secs=10),
        *(report(engine, "host", "tsk_1", 1) for report in REPORTS.values()),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            await call
    assert engine.admin.totals().namespaces == 0


# Draining


async def test_a_draining_engine_hands_out_nothing(engine, host, asked):
    await engine.tasks.submit(NS, asked())
    engine.admin.drain()
    assert await engine.leases.claim(NS, host) == []


async def test_what_is_in_flight_may_finish_while_the_engine_drains(engine, host, clock, asked):
    await engine.tasks.submit(NS, asked())
    lease = await lease_of(engine, host)
    engine.admin.drain()
    await reporting.start(engine, NS, host, lease.task.id, lease.token)
    clock.now += 30
    await engine.leases.renew(NS, host, lease.task.id, lease.token)
    assert (await reporting.complete(engine, NS, host, lease.task.id, lease.token, None)).state == "done"
