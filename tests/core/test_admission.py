"""Admission: how many tasks may be queued, and what becomes of a refused one (docs/rules.md, Admission)."""

from random import Random

import pytest

from taskyard_server.core.errors import NotFound, QueueFull
from taskyard_server.core.figures.figures import stats_of


def refused(yard, agent="ann"):
    with pytest.raises(QueueFull) as full:
        yard.submit(agent)
    return full.value


# Limits


def test_the_queue_takes_as_many_tasks_as_its_limit_and_no_more(make_yard):
    yard = make_yard(max_queue_size=3)
    for agent in ("ann", "bob", "cy"):
        yard.submit(agent)
    assert refused(yard, "dee").message == "rejected: global queue full"


def test_an_agent_may_queue_as_many_tasks_as_its_limit_and_no_more(make_yard):
    yard = make_yard(max_per_agent=2)
    yard.submit("ann")
    yard.submit("ann")
    assert refused(yard, "ann").message == "rejected: agent queue full"
    assert yard.submit("bob").state == "queued"


def test_where_both_limits_are_reached_the_global_one_is_named(make_yard):
    yard = make_yard(max_queue_size=1, max_per_agent=1)
    yard.submit()
    assert refused(yard).message == "rejected: global queue full"


def test_the_details_of_a_refusal_name_the_agent_all_that_is_queued_and_both_limits(make_yard):
    yard = make_yard(max_queue_size=10, max_per_agent=2)
    for agent in ("ann", "ann", "bob"):
        yard.submit(agent)
    full = refused(yard, "ann")
    assert full.details == {"agentId": "ann", "queued": 3, "maxQueue": 10, "maxPerAgent": 2}
    assert (full.code, full.retryable) == ("queue_full", True)


def test_only_queued_tasks_count(make_yard):
    yard = make_yard(max_queue_size=2, max_per_agent=1)
    yard.register()
    yard.submit("ann")
    lease = yard.claim_one()
    yard.submit("ann")
    yard.cancel(yard.submit("bob"))
    yard.submit("cy")
    refused(yard, "dee")
    yard.complete(lease)
    assert refused(yard, "dee").details["queued"] == 2


def test_a_place_is_free_again_once_a_queued_task_was_claimed_cancelled_or_expired(make_yard):
    yard = make_yard(max_queue_size=1)
    yard.register()
    yard.submit()
    yard.claim_one()
    task = yard.submit()
    yard.cancel(task)
    yard.submit(deadline=yard.now + 1)
    refused(yard)
    yard.pass_time(2)
    yard.submit()


def test_what_is_requeued_never_goes_through_admission(make_yard):
    yard = make_yard(max_queue_size=1, max_per_agent=1)
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.submit()
    assert yard.release(lease).state == "queued"
    assert stats_of(yard.scheduler).queued == 2
    assert refused(yard).details["queued"] == 2


# Rejected tasks


def test_a_refused_task_is_kept_as_rejected_with_its_error(make_yard):
    yard = make_yard(max_queue_size=1)
    yard.submit()
    full = refused(yard)
    task = yard.scheduler.get(full.task.id)
    assert (task.state, task.error) == ("rejected", "rejected: global queue full")
    assert (task.created_at, task.completed_at) == (yard.now, yard.now)
    assert (task.started_at, task.position, task.latency_ms) == (None, None, None)
    assert yard.tasks()[-1] is task


def test_a_refused_task_is_kept_until_its_ttl_is_over(make_yard):
    yard = make_yard(max_queue_size=1, result_ttl_secs=300)
    yard.submit()
    task = refused(yard).task
    yard.pass_time(299.875)
    assert yard.scheduler.get(task.id) is task
    yard.pass_time(0.125)
    with pytest.raises(NotFound):
        yard.scheduler.get(task.id)


def test_the_newest_max_queue_size_rejected_tasks_are_kept(make_yard):
    yard = make_yard(max_queue_size=3)
    for _ in range(3):
        yard.submit()
    rejected = [refused(yard, f"agent-{number}").task for number in range(10)]
    assert yard.tasks()[3:] == rejected[-3:]


def test_a_lowered_max_queue_size_holds_for_rejected_tasks(make_yard):
    yard = make_yard(max_queue_size=10)
    for _ in range(10):
        yard.submit()
    rejected = [refused(yard).task for _ in range(10)]
    yard.reconfigure(max_queue_size=3)
    rejected.append(refused(yard).task)
    assert yard.tasks()[10:] == rejected[-3:]


def test_refused_tasks_push_out_no_results(make_yard):
    yard = make_yard(max_queue_size=1)
    yard.register()
    yard.submit()
    done = yard.complete(yard.claim_one())
    yard.submit()
    for _ in range(20):
        refused(yard)
    assert yard.scheduler.get(done.id) is done


def test_a_refusal_takes_no_place_in_the_queue(make_yard):
    yard = make_yard(max_queue_size=5, max_per_agent=1)
    yard.submit("ann")
    for _ in range(20):
        refused(yard, "ann")
    assert yard.submit("bob").position == 2


# Changed limits


def test_lowered_limits_drop_nothing(make_yard):
    yard = make_yard()
    yard.register()
    for number in range(20):
        yard.submit(f"agent-{number % 2}")
    leases = yard.claim(count=10)
    yard.reconfigure(max_queue_size=2, max_per_agent=1, max_inflight=1, max_per_agent_inflight=1)
    stats = stats_of(yard.scheduler)
    assert (stats.queued, stats.inflight) == (10, 10)
    assert refused(yard).details["queued"] == 10
    assert yard.claim(count=5) == []
    for lease in leases[:-1]:
        yard.complete(lease)
        assert yard.claim(count=5) == []
    yard.complete(leases[-1])
    assert len(yard.claim(count=5)) == 1


def test_raised_limits_hold_at_once(make_yard):
    yard = make_yard(max_queue_size=1, max_inflight=0)
    yard.register()
    yard.submit()
    refused(yard)
    assert yard.claim() == []
    yard.reconfigure(max_queue_size=2, max_inflight=1)
    assert yard.submit().position == 2
    assert len(yard.claim(count=2)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_counts_of_queued_tasks_never_drift(make_yard, seed):
    """Random submissions, claims, cancellations, requeues and expiries: admission always counts the true number."""
    draw = Random(seed)
    yard = make_yard(max_queue_size=8, max_per_agent=3, max_deliveries=2)
    yard.register()
    for _ in range(1_000):
        agent = draw.choice("abcde")
        queued = [task for task in yard.tasks() if task.state == "queued"]
        own = sum(task.agent_id == agent for task in queued)
        match draw.randrange(6):
            case 0 | 1 | 2:
                if len(queued) >= 8 or own >= 3:
                    which = "global" if len(queued) >= 8 else "agent"
                    assert refused(yard, agent).message == f"rejected: {which} queue full"
                else:
                    assert yard.submit(agent).position == len(queued) + 1
            case 3:
                yard.claim(lease_secs=2)
            case 4 if queued:
                yard.cancel(draw.choice(queued))
            case _:
                yard.pass_time(draw.choice([0.5, 3, 30]))
        assert stats_of(yard.scheduler).queued == sum(task.state == "queued" for task in yard.tasks())
