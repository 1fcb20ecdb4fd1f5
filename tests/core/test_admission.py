"""Admission: what is accepted, what is refused and with which words, and what becomes of the refused."""

import re
from itertools import pairwise
from random import Random

import pytest

from taskyard_server.core.errors import BadRequest, Conflict, NotFound, QueueFull, Unavailable
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission, TaskOptions


def refused(yard, agent="ann"):
    with pytest.raises(QueueFull) as full:
        yard.submit(agent)
    return full.value


# What an accepted task is


def test_the_documented_defaults_are_the_limits():
    assert Limits() == Limits(
        max_queue_size=1000,
        max_per_agent=100,
        max_inflight=20,
        max_per_agent_inflight=10,
        result_ttl_secs=300,
        max_retained_tasks=200_000,
        default_deadline_secs=60,
        lease_secs=60,
        max_deliveries=5,
        heartbeat_timeout_secs=60,
    )


def test_an_accepted_task_is_queued_as_it_was_asked_for(yard):
    options = TaskOptions("https://example.com/hook", "red", frozenset({"gpu"}), (("team", "a"),), traceparent="00-1")
    asked = Submission("ann", "type", "tab", "e14", b"{}", -3, yard.now + 5, options)
    task = yard.scheduler.submit(yard.now, asked)
    assert task.state == "queued"
    assert (task.agent_id, task.action, task.tab_id, task.ref, task.params) == ("ann", "type", "tab", "e14", b"{}")
    assert (task.priority, task.deadline, task.created_at) == (-3, yard.now + 5, yard.now)
    assert task.options == options
    assert (task.started_at, task.completed_at, task.result, task.error, task.latency_ms) == (None,) * 5


def test_an_accepted_task_can_be_got_by_its_id(yard):
    task = yard.submit()
    assert yard.scheduler.get(task.id) is task


def test_params_are_kept_as_they_came_and_never_opened(yard):
    """The core keeps bytes: whether they are JSON is no business of its own."""
    assert yard.submit(params=b"\xff{not json").params == b"\xff{not json"


def test_the_position_is_the_number_of_queued_tasks_just_after_admission(yard):
    yard.register()
    assert [yard.submit(agent).position for agent in ("ann", "bob", "ann")] == [1, 2, 3]
    yard.claim(count=2)
    assert yard.submit().position == 2


def test_a_position_stays_what_it_was_at_submission(yard):
    yard.register()
    yard.submit()
    task = yard.submit()
    yard.claim_one()
    assert task.position == 2


def test_the_deadline_is_a_minute_from_now_unless_the_caller_or_the_limits_say_otherwise(yard, make_yard):
    assert yard.submit().deadline == yard.now + 60
    assert yard.submit(deadline=yard.now + 7).deadline == yard.now + 7
    assert make_yard(default_deadline_secs=5).submit().deadline == yard.now + 5


@pytest.mark.parametrize("ago", [0, 0.001, 1, 1e9])
def test_a_deadline_that_is_not_in_the_future_is_refused_and_leaves_nothing(yard, watch, ago):
    changes = watch(yard.scheduler)
    with pytest.raises(BadRequest, match="deadline"):
        yard.submit(deadline=yard.now - ago)
    assert changes() == []


# Ids


def test_ids_are_the_prefix_and_128_bits_in_hex(yard):
    assert re.fullmatch(r"tsk_[0-9a-f]{32}", yard.submit().id)


def test_ids_are_unique_and_sort_by_time_also_within_an_instant(make_yard):
    yard = make_yard(max_queue_size=1_500)
    ids = []
    for number in range(2_000):
        try:
            ids.append(yard.submit(f"agent-{number % 7}").id)
        except QueueFull as full:
            ids.append(full.task.id)
        if number % 100 == 0:
            yard.now += 0.001
    assert len(set(ids)) == 2_000
    assert ids == sorted(ids)


@pytest.mark.parametrize("nonsense", ["", "tsk_", "tsk_a1b2c3d4", "x" * 10_000, "tsk_" + "g" * 32, "'; --", "é\0"])
def test_an_id_of_nonsense_shape_is_not_found(yard, nonsense):
    yard.register()
    yard.submit()
    with pytest.raises(NotFound, match="task not found"):
        yard.scheduler.get(nonsense)
    with pytest.raises(NotFound, match="task not found"):
        yard.scheduler.cancel(yard.now, nonsense)
    reports = yard.scheduler.reports
    for report in (reports.start, reports.release, reports.renew):
        with pytest.raises(NotFound, match="task not found"):
            report(yard.now, "host", nonsense, 1)


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
    assert yard.scheduler.stats().queued == 2
    assert refused(yard).details["queued"] == 2


# What becomes of the refused


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


def test_of_refused_tasks_the_newest_max_queue_size_are_kept(make_yard):
    yard = make_yard(max_queue_size=3)
    for _ in range(3):
        yard.submit()
    rejected = [refused(yard, f"agent-{number}").task for number in range(10)]
    assert yard.tasks()[3:] == rejected[-3:]


def test_of_refused_tasks_the_newest_max_queue_size_are_kept_also_after_that_was_lowered(make_yard):
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


# Batches


def batch(yard, *agents, **wish):
    asked = [Submission(agent, "click", **wish) for agent in agents]
    return yard.scheduler.submit_batch(yard.now, asked)


def test_the_tasks_of_a_batch_are_admitted_one_by_one_in_order(make_yard):
    yard = make_yard(max_queue_size=3)
    yard.submit()
    admitted = batch(yard, *["ann"] * 4)
    first, second, third, fourth = admitted.outcomes
    assert [(task.state, task.position) for task in (first, second)] == [("queued", 2), ("queued", 3)]
    assert [type(refusal) for refusal in (third, fourth)] == [QueueFull, QueueFull]
    tasks = [first, second, third.task, fourth.task]
    assert list(admitted.batch.tasks.values()) == tasks == yard.tasks()[1:]
    assert {task.options.batch_id for task in tasks} == {admitted.batch.id}


def test_the_tasks_of_a_batch_are_what_was_asked_for(yard):
    options = TaskOptions("https://example.com/hook", "red", frozenset({"gpu"}), (("team", "a"),), traceparent="00-1")
    admitted = batch(yard, "ann", tab_id="tab", ref="e14", params=b"{}", priority=-3, options=options)
    (task,) = admitted.outcomes
    assert (task.agent_id, task.tab_id, task.ref, task.params, task.priority) == ("ann", "tab", "e14", b"{}", -3)
    assert task.options == options._replace(batch_id=admitted.batch.id)
    assert (admitted.batch.agent_id, admitted.batch.created_at) == ("ann", yard.now)


def test_a_batch_with_one_bad_deadline_admits_nothing(yard, watch):
    changes = watch(yard.scheduler)
    good, bad = Submission("ann", "click"), Submission("ann", "click", deadline=yard.now)
    with pytest.raises(BadRequest):
        yard.scheduler.submit_batch(yard.now, [good, bad, good])
    assert changes() == []


def test_batch_ids_are_the_prefix_and_128_bits_in_hex_and_sort_by_time(yard):
    ids = []
    for _ in range(10):
        ids.append(batch(yard, "ann").batch.id)
        yard.now += 0.001
    assert all(re.fullmatch(r"bat_[0-9a-f]{32}", batch_id) for batch_id in ids)
    assert all(earlier < later for earlier, later in pairwise(ids))


def test_a_batch_is_known_for_as_long_as_one_of_its_tasks_is_retained(make_yard):
    yard = make_yard(result_ttl_secs=10)
    admitted = batch(yard, "ann", "ann")
    first, second = admitted.outcomes
    yard.cancel(first)
    yard.pass_time(5)
    yard.cancel(second)
    yard.pass_time(5)
    assert list(yard.scheduler.batch(admitted.batch.id).tasks.values()) == [second]
    yard.pass_time(5)
    with pytest.raises(NotFound, match="batch not found"):
        yard.scheduler.batch(admitted.batch.id)


def test_a_batch_of_refused_tasks_alone_outlives_the_push_of_newer_refusals(make_yard):
    """The newest refusal is of the batch itself, whatever the limit pushes out."""
    yard = make_yard(max_queue_size=1)
    yard.submit()
    admitted = batch(yard, *["ann"] * 5)
    assert list(admitted.batch.tasks.values()) == [admitted.outcomes[-1].task]


def test_cancelling_a_batch_ends_what_has_not_ended_and_counts_it(yard):
    yard.register()
    admitted = batch(yard, *["ann"] * 4)
    done, running, *waiting = admitted.outcomes
    yard.complete(yard.claim_one())
    yard.start(yard.claim_one())
    assert not admitted.batch.ended()
    assert yard.scheduler.cancel_batch(yard.now, admitted.batch.id) == 3
    assert done.state == "done"
    assert {task.state.value for task in [running, *waiting]} == {"cancelled"}
    assert admitted.batch.ended()
    assert yard.scheduler.cancel_batch(yard.now, admitted.batch.id) == 0


# Draining


def test_a_draining_scheduler_accepts_nothing_and_hands_out_nothing(yard):
    yard.register()
    yard.submit()
    yard.scheduler.drain()
    with pytest.raises(Unavailable) as refusal:
        yard.submit()
    assert refusal.value.retryable
    with pytest.raises(Unavailable):
        batch(yard, "ann")
    assert yard.claim() == []
    assert yard.scheduler.stats().limited_by is None


def test_what_is_in_flight_may_finish_while_it_drains(yard):
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.scheduler.drain()
    yard.start(lease)
    yard.renew(lease, 100)
    assert yard.complete(lease).state == "done"


def test_shut_down_cancels_what_waits_and_pauses_what_runs(yard):
    yard.register()
    running, assigned, waiting = [yard.submit() for _ in range(3)]
    lease, _ = yard.claim(count=2)
    yard.start(lease)
    yard.scheduler.drain()
    yard.scheduler.shut_down(yard.now)
    assert (waiting.state, waiting.error) == ("cancelled", "scheduler shutdown")
    for task in (running, assigned):
        assert (task.state, task.error, task.lease) == ("paused", "Job was interrupted by user", None)
    assert lease.host.leases == {}
    assert (yard.scheduler.stats().queued, yard.scheduler.inflight) == (0, 0)
    with pytest.raises(Conflict):
        yard.cancel(waiting)
    assert yard.cancel(running).state == "cancelled"


def test_a_second_shut_down_changes_nothing(yard, watch):
    yard.register()
    for _ in range(2):
        yard.submit()
    yard.claim_one()
    yard.scheduler.shut_down(yard.now)
    changes = watch(yard.scheduler)
    yard.scheduler.shut_down(yard.now + 1)
    assert changes() == []


def test_a_paused_task_outlives_its_deadline_and_can_be_cancelled(yard):
    yard.register()
    task = yard.submit(deadline=yard.now + 10)
    yard.claim_one()
    yard.scheduler.shut_down(yard.now)
    yard.pass_time(1_000)
    assert task.state == "paused"
    assert (yard.cancel(task).state, task.error) == ("cancelled", None)


# Lowered and raised limits


def test_lowered_limits_drop_nothing(make_yard):
    yard = make_yard()
    yard.register()
    for number in range(20):
        yard.submit(f"agent-{number % 2}")
    leases = yard.claim(count=10)
    yard.reconfigure(max_queue_size=2, max_per_agent=1, max_inflight=1, max_per_agent_inflight=1)
    stats = yard.scheduler.stats()
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
    """Submit, refuse, claim, cancel, requeue and expire at random: the limits always see the true number."""
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
        assert yard.scheduler.stats().queued == sum(task.state == "queued" for task in yard.tasks())
