"""Figures: every task is counted once, and a limit that holds up work is named (docs/rules.md, Figures)."""

from random import Random

import pytest

from taskyard_server.core.errors import LeaseLost, QueueFull
from taskyard_server.core.figures.figures import add_to_totals, stats_of
from taskyard_server.core.stats import AgentStats, Counters, Totals

COUNTS = (
    "submitted",
    "completed",
    "failed",
    "cancelled",
    "rejected",
    "expired",
    "dispatched",
    "late_reports",
    "evicted",
)


def counts(yard):
    """The counters that are not zero."""
    counters = stats_of(yard.scheduler).counters
    return {name: count for name in COUNTS if (count := getattr(counters, name))}


def refuse(yard, agent="ann"):
    with pytest.raises(QueueFull):
        yard.submit(agent)


def test_at_the_start_all_figures_are_zero(yard):
    stats = stats_of(yard.scheduler)
    assert (stats.queued, stats.inflight, stats.agents, stats.limited_by) == (0, 0, {}, None)
    assert stats.counters == Counters()
    assert stats.avg_dispatch_latency_ms == 0


def test_queued_and_in_flight_are_counted_in_all_and_by_agent(yard):
    yard.register()
    for agent in ("ann", "ann", "bob", "bob", "bob"):
        yard.submit(agent)
    first, _ = yard.claim(count=2)
    yard.start(first)
    stats = stats_of(yard.scheduler)
    assert (stats.queued, stats.inflight) == (3, 2)
    assert {agent: (its.queued, its.inflight) for agent, its in stats.agents.items()} == {"ann": (1, 1), "bob": (2, 1)}


def test_every_way_to_end_has_its_counter(make_yard):
    yard = make_yard(max_queue_size=3, max_deliveries=1)
    yard.register()
    for _ in range(3):
        yard.submit()
    refuse(yard)
    yard.complete(yard.claim_one())
    yard.fail(yard.claim_one())
    yard.cancel(yard.claim_one().task)
    assert counts(yard) == {
        "submitted": 3,
        "completed": 1,
        "failed": 1,
        "cancelled": 1,
        "rejected": 1,
        "dispatched": 3,
    }


def test_a_task_that_expires_in_the_queue_is_failed_and_expired(yard):
    yard.submit(deadline=yard.now + 1)
    yard.pass_time(2)
    assert counts(yard) == {"submitted": 1, "failed": 1, "expired": 1}


def test_a_task_that_meets_its_deadline_in_flight_is_failed_and_not_expired(yard):
    yard.register()
    yard.submit(deadline=yard.now + 1)
    yard.claim_one()
    yard.pass_time(2)
    assert counts(yard) == {"submitted": 1, "failed": 1, "dispatched": 1}


def test_every_hand_out_of_a_task_is_counted_its_end_once(make_yard):
    yard = make_yard(max_deliveries=3)
    yard.register()
    yard.submit()
    yard.release(yard.claim_one())
    for _ in range(3):
        yard.claim_one(lease_secs=1)
        yard.pass_time(1.125)
    assert counts(yard) == {"submitted": 1, "failed": 1, "dispatched": 4}


def test_an_agents_figures_are_its_own(make_yard):
    yard = make_yard(max_per_agent=3)
    yard.register()
    for _ in range(3):
        yard.submit("ann")
    refuse(yard, "ann")
    yard.submit("bob")
    lease = yard.claim_one()
    yard.scheduler.reports.complete(yard.now, "host", lease.task.id, lease.token, None, 7)
    yard.fail(yard.claim_one())
    yard.cancel(yard.submit("cy"))
    agents = stats_of(yard.scheduler).agents
    assert agents["ann"] == AgentStats(
        queued=2, inflight=0, submitted=3, completed=1, failed=0, cancelled=0, rejected=1, tokens_used=7
    )
    assert agents["bob"] == AgentStats(
        queued=0, inflight=0, submitted=1, completed=0, failed=1, cancelled=0, rejected=0, tokens_used=0
    )
    assert agents["cy"] == AgentStats(
        queued=0, inflight=0, submitted=1, completed=0, failed=0, cancelled=1, rejected=0, tokens_used=0
    )


def test_the_dispatch_latency_is_from_queue_entry_to_hand_out_averaged_over_all_hand_outs(yard):
    yard.register()
    yard.submit(deadline=yard.now + 1_000)
    yard.now += 1
    lease = yard.claim_one()
    yard.now += 100
    assert stats_of(yard.scheduler).avg_dispatch_latency_ms == 1_000
    yard.release(lease)
    yard.now += 2
    yard.claim_one()
    assert stats_of(yard.scheduler).avg_dispatch_latency_ms == 1_500


def test_figures_once_handed_out_do_not_change(yard):
    stats = stats_of(yard.scheduler)
    yard.submit()
    assert (stats.queued, stats.counters.submitted, stats.agents) == (0, 0, {})


def test_the_limits_in_force_are_part_of_the_figures(yard):
    yard.reconfigure(max_queue_size=17)
    assert stats_of(yard.scheduler).limits.max_queue_size == 17


def test_the_figures_of_namespaces_add_up(make_yard):
    totals = Totals()
    for tasks in (1, 2, 3):
        yard = make_yard(max_queue_size=tasks)
        yard.register()
        for _ in range(tasks):
            yard.submit()
        refuse(yard)
        yard.now += 1
        yard.claim_one()
        add_to_totals(totals, yard.scheduler)
    assert (totals.namespaces, totals.queued, totals.inflight, totals.retained) == (3, 3, 3, 3)
    counters = totals.counters
    assert (counters.submitted, counters.rejected, counters.dispatched) == (6, 3, 3)
    assert counters.dispatch_latency_secs == 3


@pytest.mark.parametrize("seed", range(5))
def test_submitted_is_completed_and_failed_and_cancelled_and_what_is_live_always(make_yard, seed):
    draw = Random(seed)
    yard = make_yard(
        max_queue_size=20, max_per_agent=8, max_deliveries=2, max_retained_tasks=10, result_ttl_secs=20, max_inflight=12
    )
    yard.register()
    leases = []
    rejected = late = 0
    for _ in range(2_000):
        agent = draw.choice("abcdef")
        match draw.randrange(9):
            case 0 | 1 | 2:
                try:
                    yard.submit(agent, deadline=yard.now + draw.randrange(1, 30))
                except QueueFull:
                    rejected += 1
            case 3 | 4:
                leases += yard.claim(count=draw.randrange(4), lease_secs=draw.randrange(1, 6))
            case 5 | 6 if leases:
                lease = leases.pop(draw.randrange(len(leases)))
                report = draw.choice([yard.start, yard.complete, yard.fail, yard.release])
                if lease.task.lease is lease and lease.task.state == "assigned":
                    report(lease)
                elif yard.tasks() and lease.task in yard.tasks() and lease.task.lease is not lease:
                    with pytest.raises(LeaseLost):
                        report(lease)
                    late += 1
            case 7:
                live = [task for task in yard.tasks() if task.completed_at is None]
                if live:
                    yard.cancel(draw.choice(live))
            case _:
                yard.pass_time(draw.random() * 2)
        live = [task for task in yard.tasks() if task.completed_at is None]
        stats = stats_of(yard.scheduler)
        counters = stats.counters
        assert counters.submitted == counters.completed + counters.failed + counters.cancelled + len(live)
        assert (counters.rejected, counters.late_reports) == (rejected, late)
        assert len(live) == stats.queued + stats.inflight
        for agent, its in stats.agents.items():
            own = sum(task.agent_id == agent for task in live)
            assert its.queued + its.inflight == own
            assert its.submitted == its.completed + its.failed + its.cancelled + own
        assert stats.queued == sum(its.queued for its in stats.agents.values())
        assert stats.inflight == sum(its.inflight for its in stats.agents.values())
    assert min(counters.completed, counters.failed, counters.cancelled, counters.expired, rejected, late) > 0


# A limit that holds work up while hosts are free


def limited_by(yard):
    return stats_of(yard.scheduler).limited_by


def test_while_tasks_wait_for_the_global_limit_alone_it_is_named(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    yard.submit()
    yard.submit()
    yard.claim(count=2)
    assert limited_by(yard) == "maxInflight"


def test_while_tasks_wait_for_their_agents_limit_alone_it_is_named(make_yard):
    yard = make_yard(max_per_agent_inflight=1)
    yard.register()
    yard.submit()
    yard.submit()
    yard.claim(count=2)
    assert limited_by(yard) == "maxPerAgentInflight"


def test_no_limit_is_named_while_every_claim_is_met_in_full(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    yard.submit()
    yard.submit()
    yard.claim(count=1)
    assert limited_by(yard) is None


def test_no_limit_is_named_where_nothing_waits(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    yard.submit()
    yard.claim(count=5)
    assert limited_by(yard) is None


def test_no_limit_is_named_where_what_waits_is_for_other_hosts(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    yard.submit()
    yard.submit(requires=frozenset({"gpu"}))
    yard.claim(count=5)
    assert limited_by(yard) is None


def test_a_limit_is_no_longer_named_once_a_host_finds_nothing_more(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    yard.submit()
    yard.submit()
    (lease,) = yard.claim(count=2)
    yard.complete(lease)
    yard.claim_one()
    assert yard.claim() == []
    assert limited_by(yard) is None


def test_a_limit_is_no_longer_named_once_a_claim_is_met_in_full(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    for _ in range(3):
        yard.submit()
    yard.claim(count=2)
    yard.reconfigure(max_inflight=100)
    yard.claim(count=2)
    assert limited_by(yard) is None


def test_a_limit_is_no_longer_named_once_nothing_waits(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    yard.submit()
    waiting = yard.submit()
    yard.claim(count=2)
    yard.cancel(waiting)
    assert limited_by(yard) is None


def test_a_limit_that_holds_up_one_host_is_named_also_when_another_finds_nothing(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    yard.register("idle", actions=frozenset({"nothing of this kind"}))
    yard.submit()
    yard.submit()
    yard.claim(count=2)
    yard.claim("idle")
    assert limited_by(yard) == "maxInflight"


def test_a_limit_is_no_longer_named_once_the_host_that_it_held_up_has_left(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    yard.register("other")
    yard.submit()
    yard.submit()
    yard.claim_one("other")
    yard.claim()
    assert limited_by(yard) == "maxInflight"
    yard.deregister()
    assert limited_by(yard) is None
