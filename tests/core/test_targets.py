"""Targets: the tasks of one target run one at a time, oldest first (queueing-and-execution; DESIGN, Targets)."""

from functools import partial

import pytest

from taskyard_server.core.errors import Conflict, NotFound
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.streams import Hello
from taskyard_server.core.targets import TargetStatus


def a_yard(yard):
    """The yard, with two hosts, and deadlines and leases so long that a test meets them only where it wants to."""
    yard.reconfigure(default_deadline_secs=100_000.0, lease_secs=100.0, heartbeat_timeout_secs=10_000.0)
    yard.register()
    yard.register("other")
    yard.serial = partial(yard.submit, target="t")
    return yard


@pytest.fixture
def yard(yard):
    return a_yard(yard)


def claimed(yard, count=10):
    """All that may be claimed now."""
    return [lease.task for lease in yard.claim("other", count)]


def standing(yard, name="t"):
    """How a target stands: its status and the task that this is about; None if there is no such target."""
    return next((target.standing for target in yard.scheduler.targets.after("") if target.name == name), None)


# One at a time


def test_of_a_target_one_task_is_in_flight_at_a_time_and_others_are_not_held_up(yard):
    first, _, elsewhere, plain = yard.serial(), yard.serial(), yard.submit(target="u"), yard.submit()
    assert claimed(yard) == [first, elsewhere, plain]
    assert claimed(yard) == []


def test_the_next_one_follows_when_the_one_before_has_ended(yard):
    tasks = [yard.serial() for _ in range(3)]
    for task in tasks:
        lease = yard.start_one()
        assert lease.task is task
        assert claimed(yard) == []
        yard.complete(lease)
    assert standing(yard) is None


def test_within_a_target_age_beats_priority_and_fairness(yard):
    first = yard.serial("ann", priority=9)
    yard.serial("bob", priority=-9)
    yard.complete(yard.start_one())
    third = yard.serial("ann", priority=9)
    assert yard.start_one().task.agent_id == "bob"
    assert (first.state, third.state) == ("done", "queued")


def test_a_head_that_no_host_may_run_holds_up_those_behind_it(yard):
    yard.serial(requires=frozenset({"gpu"}))
    second = yard.serial()
    assert claimed(yard) == []
    yard.cancel(yard.tasks()[0])
    assert claimed(yard) == [second]


def test_only_the_head_counts_as_claimable_but_all_count_as_queued(yard):
    for _ in range(3):
        yard.serial()
    assert yard.scheduler.stats().queued == 3
    assert yard.claim_one().task is yard.tasks()[0]
    assert yard.scheduler.stats().queued == 2


def test_a_released_task_is_the_head_again(yard):
    first, _ = yard.serial(), yard.serial()
    yard.release(yard.start_one())
    assert claimed(yard) == [first]


def test_a_task_behind_the_head_can_be_cancelled_without_a_trace(yard):
    first, second, third = (yard.serial() for _ in range(3))
    yard.cancel(second)
    for task in (first, third):
        lease = yard.start_one()
        assert lease.task is task
        yard.complete(lease)


# What blocks


def paused(yard):
    lease = yard.start_one()
    yard.pause(lease.task)
    yard.report_stopped(lease)


def failed(yard):
    yard.fail(yard.start_one())


def overdue(yard):
    lease = yard.start_one()
    yard.pass_time(lease.task.deadline - yard.now + 1)
    yard.report_stopped(lease)


def overdue_in_a_second_delivery(yard):
    """It had started, and went back to the queue when its host was deregistered."""
    lease = yard.start_one()
    yard.deregister()
    yard.report_stopped(lease)
    yard.pass_time(lease.task.deadline - yard.now + 1)


def lost(yard):
    yard.start_one()
    yard.pass_time(101)


def over_budget(yard):
    lease = yard.start_one()
    yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, None, 11)
    yard.report_stopped(lease)


BLOCKING = [paused, failed, overdue, overdue_in_a_second_delivery, lost, over_budget]


def blocked(yard, how):
    """A target that a task blocks, with another one behind it."""
    blocker = yard.serial(deadline=yard.now + 500, token_limit=10)
    behind = yard.serial()
    how(yard)
    assert claimed(yard) == []
    assert standing(yard) == (TargetStatus.BLOCKED, blocker)
    return blocker, behind


@pytest.mark.parametrize("how", BLOCKING)
def test_a_paused_task_and_one_that_failed_after_it_had_started_block_until_they_are_resumed(yard, how):
    blocker, behind = blocked(yard, how)
    yard.register()
    yard.resume(blocker, token_limit=1_000)
    assert claimed(yard) == [blocker]
    assert behind.state == "queued"


@pytest.mark.parametrize("how", BLOCKING)
@pytest.mark.parametrize("act", ["resolve", "cancel"])
def test_a_blocked_target_goes_on_when_the_blocker_is_resolved_or_cancelled(yard, how, act):
    blocker, behind = blocked(yard, how)
    getattr(yard, act)(blocker)
    assert claimed(yard) == [behind]


@pytest.mark.parametrize("how", BLOCKING)
def test_a_blocked_target_is_told_with_what_it_waits_for(yard, how):
    blocker, _ = blocked(yard, how)
    (target,) = yard.scheduler.targets.after("")
    assert target.waits_for == f"{blocker.id} to be resumed, resolved or cancelled"
    assert target.held_back == 1
    assert target.since <= yard.now


def expired_in_the_queue(yard):
    yard.pass_time(501)


def failed_without_a_start(yard):
    yard.fail(yard.claim_one())


def lease_lost_before_the_start(yard):
    yard.claim_one()
    yard.pass_time(101)


def cancelled_while_it_ran(yard):
    lease = yard.start_one()
    yard.cancel(lease.task)
    yard.report_stopped(lease)


NOT_BLOCKING = [expired_in_the_queue, failed_without_a_start, lease_lost_before_the_start, cancelled_while_it_ran]


@pytest.mark.parametrize("how", NOT_BLOCKING)
def test_one_that_failed_without_a_start_and_a_cancelled_one_block_nothing(yard, how):
    task = yard.serial(deadline=yard.now + 500)
    behind = yard.serial()
    how(yard)
    assert task.state in ("failed", "cancelled")
    assert claimed(yard) == [behind]


def test_the_stale_worker_rule_a_started_task_of_a_target_fails_by_its_lease_and_can_be_resumed(yard):
    task = yard.serial()
    lost(yard)
    assert (task.state, task.error) == ("failed", "lease expired")
    yard.resume(task)
    assert claimed(yard) == [task]


def test_a_plain_task_and_one_of_another_target_are_not_blocked(yard):
    blocked(yard, failed)
    others = [yard.submit(), yard.submit(target="u")]
    assert claimed(yard) == others


def test_a_failed_task_that_blocks_nothing_can_be_resumed_and_resolved_but_not_cancelled(yard):
    first, second = (yard.serial(deadline=yard.now + 5) for _ in range(2))
    yard.pass_time(6)
    with pytest.raises(Conflict, match=r"^task is already failed$"):
        yard.cancel(first)
    yard.resolve(second)
    yard.resume(first)
    assert claimed(yard) == [first]


# Order


def test_a_resumed_older_task_takes_the_place_of_a_younger_head_that_is_not_yet_claimed(yard):
    older = yard.serial(deadline=yard.now + 5)
    yard.pass_time(6)
    younger = yard.serial()
    assert standing(yard) == (TargetStatus.READY, younger)
    yard.resume(older)
    assert standing(yard) == (TargetStatus.READY, older)
    assert claimed(yard) == [older]


def test_a_resumed_older_task_waits_for_a_younger_one_that_is_under_way_and_goes_before_the_rest(yard):
    older = yard.serial(deadline=yard.now + 5)
    yard.pass_time(6)
    yard.serial()
    lease = yard.start_one()
    yard.serial()
    yard.resume(older)
    assert claimed(yard) == []
    yard.complete(lease)
    assert claimed(yard) == [older]


def test_a_head_that_waits_for_its_next_attempt_keeps_its_place(yard):
    head = yard.serial(retry=RetryPolicy(max_attempts=2, first_delay_secs=50))
    behind = yard.serial()
    yard.fail(yard.start_one())
    assert head.state == "pending"
    assert claimed(yard) == []
    assert standing(yard) == (TargetStatus.WAITING, head)
    yard.pass_time(51)
    assert claimed(yard) == [head]
    assert behind.state == "queued"


def test_a_held_task_and_one_that_is_not_due_have_no_place(yard):
    held, later = yard.serial(hold=True), yard.serial(not_before=yard.now + 50)
    third, fourth = yard.serial(), yard.serial()
    lease = yard.start_one()
    assert lease.task is third
    yard.resume(held)
    yard.pass_time(51)
    yard.complete(lease)
    for task in (held, later, fourth):
        lease = yard.start_one()
        assert lease.task is task, "by the order of submission, once they have a place"
        yard.complete(lease)


def test_a_target_of_held_tasks_only_waits_for_them(yard):
    held = yard.serial(hold=True)
    (target,) = yard.scheduler.targets.after("")
    assert target.standing == (TargetStatus.WAITING, held)
    assert target.waits_for == f"{held.id} to come due or to be released"
    assert target.held_back == 0


# A stopped task keeps its target


def cancel(yard, lease):
    yard.cancel(lease.task)


def pause(yard, lease):
    yard.pause(lease.task)
    yard.cancel(lease.task)


def pass_the_deadline(yard, lease):
    yard.pass_time(lease.task.deadline - yard.now + 0.2)
    yard.cancel(lease.task) if yard.scheduler.targets.blocks(lease.task) else None


def deregister(yard, lease):
    yard.deregister(lease.host.id)
    yard.cancel(lease.task)


STOPS = [cancel, pause, pass_the_deadline, deregister]


def stop_one(yard, how, started=True):
    """A task that was stopped while its host may have worked on it, and the one behind it."""
    yard.serial(deadline=yard.now + 20)
    behind = yard.serial()
    lease = yard.start_one() if started else yard.claim_one()
    how(yard, lease)
    return lease, behind


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("started", [True, False], ids=["running", "assigned"])
def test_a_stopped_task_keeps_its_target_until_its_host_says_that_it_stopped(yard, how, started):
    lease, behind = stop_one(yard, how, started)
    assert claimed(yard) == []
    assert standing(yard) == (TargetStatus.STOPPING, lease.task)
    yard.report_stopped(lease)
    assert claimed(yard) == [behind]


@pytest.mark.parametrize("how", STOPS)
def test_a_stopped_task_keeps_its_target_no_longer_than_until_its_lease_would_have_ended(yard, how):
    lease, behind = stop_one(yard, how)
    yard.pass_time(lease.expires_at - yard.now)
    assert claimed(yard) == []
    yard.pass_time(0.2)
    assert claimed(yard) == [behind]


@pytest.mark.parametrize("how", STOPS)
def test_only_its_own_host_can_say_that_a_task_has_stopped_and_only_with_its_token(yard, how):
    lease, _ = stop_one(yard, how)
    yard.scheduler.reports.stopped(yard.now, "other", lease.task.id, lease.token)
    yard.scheduler.reports.stopped(yard.now, "host", lease.task.id, lease.token + 1)
    yard.scheduler.reports.stopped(yard.now, "host", "tsk_0", lease.token)
    assert claimed(yard) == []


def test_a_task_that_is_paused_and_resumed_at_once_does_not_run_beside_itself(yard):
    task = yard.serial()
    lease = yard.start_one()
    yard.resume(yard.pause(task))
    assert claimed(yard) == []
    assert standing(yard) == (TargetStatus.STOPPING, task)
    yard.report_stopped(lease)
    assert claimed(yard) == [task]


def test_a_host_that_reports_the_end_itself_frees_the_target_at_once(yard):
    yard.serial()
    behind = yard.serial()
    yard.complete(yard.start_one())
    assert claimed(yard) == [behind]


def hello(*held, host_id="streamer", instance="i1"):
    return Hello(host_id, instance, held=held)


def run_on_stream(yard):
    """Hand one task to a host with a stream, which starts it."""
    stream = yard.scheduler.connect(yard.now, hello()).offer
    yard.scheduler.give_credit(yard.now, stream, 1)
    ((lease,),) = yard.scheduler.dispatch(yard.now).values()
    yard.start(lease)
    return stream, lease


@pytest.mark.parametrize("instance", ["i1", "i2"])
def test_a_host_that_reconnects_without_listing_a_stopped_task_frees_its_target(yard, instance):
    yard.serial()
    behind = yard.serial()
    stream, lease = run_on_stream(yard)
    yard.cancel(lease.task)
    yard.scheduler.disconnect(yard.now, stream)
    assert claimed(yard) == []
    yard.scheduler.connect(yard.now, hello(instance=instance))
    assert claimed(yard) == [behind]


def test_a_host_that_reconnects_and_still_works_on_a_stopped_task_keeps_its_target(yard):
    yard.serial()
    behind = yard.serial()
    stream, lease = run_on_stream(yard)
    yard.cancel(lease.task)
    yard.scheduler.disconnect(yard.now, stream)
    welcome = yard.scheduler.connect(yard.now, hello((lease.task.id, lease.token)))
    assert welcome.lost == [(lease.task.id, lease.token)]
    assert claimed(yard) == []
    yard.report_stopped(lease)
    assert claimed(yard) == [behind]


def test_a_stream_says_nothing_of_what_its_host_claimed_by_calls(yard):
    yard.serial()
    yard.serial()
    yard.register("streamer")
    lease = yard.start_one("streamer")
    yard.cancel(lease.task)
    yard.scheduler.connect(yard.now, hello())
    assert claimed(yard) == []


def test_a_task_that_was_handed_out_and_not_started_in_time_is_claimable_at_once(make_yard):
    yard = make_yard(start_timeout_secs=5.0)
    task = yard.submit(target="t")
    stream = yard.scheduler.connect(yard.now, hello()).offer
    yard.scheduler.give_credit(yard.now, stream, 1)
    yard.scheduler.dispatch(yard.now)
    yard.pass_time(5.2)
    yard.register()
    assert (task.state, task.error) == ("queued", None)
    assert yard.claim_one().task is task


# Deadlines


def test_a_default_deadline_counts_only_from_when_the_task_is_the_head_that_may_be_claimed(make_yard):
    yard = make_yard(default_deadline_secs=60.0, lease_secs=1_000.0, heartbeat_timeout_secs=10_000.0)
    yard.register()
    first, second = yard.submit(target="t", deadline=yard.now + 5_000), yard.submit(target="t")
    assert (first.deadline, second.deadline) == (yard.now + 5_000, None)
    lease = yard.start_one()
    yard.pass_time(900)
    yard.complete(lease)
    assert second.deadline == yard.now + 60
    yard.pass_time(60.2)
    assert (second.state, second.error) == ("failed", "deadline exceeded while queued")


def test_a_default_deadline_does_not_count_while_an_older_task_goes_first(make_yard):
    yard = make_yard(default_deadline_secs=60.0, lease_secs=1_000.0, heartbeat_timeout_secs=10_000.0)
    yard.register()
    older = yard.submit(target="t", hold=True)
    younger = yard.submit(target="t")
    assert younger.deadline == yard.now + 60
    yard.resume(older)
    assert younger.deadline is None
    lease = yard.start_one()
    yard.pass_time(59)
    yard.complete(lease)
    assert younger.deadline == yard.now + 60


def test_a_deadline_that_the_submitter_set_counts_while_the_task_waits_for_its_target(yard):
    yard.serial()
    waiting = yard.serial(deadline=yard.now + 10)
    yard.start_one()
    yard.pass_time(10.2)
    assert (waiting.state, waiting.error) == ("failed", "deadline exceeded while queued")


# Finding, cost, leftovers


def test_a_task_is_resumed_by_its_target_only_if_it_is_of_that_target(yard):
    blocker, _ = blocked(yard, failed)
    for other in ("u", ""):
        with pytest.raises(NotFound, match=r"^task not found$"):
            yard.resume(blocker, other)
    yard.resume(blocker, "t")
    assert blocker.state == "queued"


def test_targets_are_listed_by_name_with_what_each_does(yard):
    ready, running, waiting = yard.submit(target="a"), yard.submit(target="c"), yard.submit(target="b", hold=True)
    yard.claim("other", 1)
    yard.release(yard.claim("other", 1)[0])
    listed = [(target.name, *target.standing) for target in yard.scheduler.targets.after("")]
    assert listed == [
        ("a", TargetStatus.RUNNING, ready),
        ("b", TargetStatus.WAITING, waiting),
        ("c", TargetStatus.READY, running),
    ]
    assert [target.name for target in yard.scheduler.targets.after("a")] == ["b", "c"]


def test_eviction_never_takes_a_task_that_blocks_its_target(yard):
    blocker, _ = blocked(yard, failed)
    yard.reconfigure(max_retained_tasks=1, result_ttl_secs=5.0)
    for _ in range(10):
        yard.cancel(yard.submit())
    yard.pass_time(1_000)
    assert yard.scheduler.get(blocker.id) is blocker
    yard.resolve(blocker)
    yard.pass_time(6)
    with pytest.raises(NotFound):
        yard.scheduler.get(blocker.id)


def test_a_task_that_ends_twice_within_one_moment_is_retained_once(yard):
    task = yard.submit()
    for _ in range(3):
        yard.fail(yard.start_one())
        yard.resume(task)
    yard.fail(yard.start_one())
    yard.resolve(task)
    assert yard.scheduler.stats().counters.failed - yard.scheduler.stats().counters.reopened == 0
    yard.pass_time(301)
    assert yard.tasks() == []
    assert yard.scheduler.stats().counters.evicted == 0


def test_a_resumed_task_is_not_evicted_by_its_earlier_end(yard):
    yard.reconfigure(result_ttl_secs=300.0)
    task = yard.submit()
    yard.fail(yard.start_one())
    yard.pass_time(299)
    yard.resume(task)
    yard.pass_time(50)
    assert yard.scheduler.get(task.id) is task


def cost_with(yard, targets, instructions):
    """What a task's way from submit over pause, resume and a lost host to its end costs, beside so many targets."""
    for number in range(targets):
        yard.submit(f"agent {number % 100}", target=f"t{number}")
        if number % 3 == 0:
            yard.fail(yard.start_one())
        elif number % 3 == 1:
            yard.pause(yard.start_one().task)

    def live():
        task = yard.serial("zoe", "other action")
        host = yard.register("zoes", actions=frozenset({"other action"}))
        lease = yard.start_one("zoes")
        yard.pause(task)
        yard.report_stopped(lease)
        yard.resume(task)
        yard.deregister(host.id)
        yard.cancel(task)

    live()
    return instructions(live)


@pytest.mark.python_core
def test_ten_thousand_targets_cost_no_scan(make_yard, instructions):
    assert cost_with(a_yard(make_yard()), 10_000, instructions) < 1.2 * cost_with(
        a_yard(make_yard()), 100, instructions
    )


def test_nothing_is_left_behind_when_all_is_over(yard, object_count):
    def live():
        yard.register()
        yard.register("other")
        for options in ({}, {}, {"retry": RetryPolicy(2, 0.5)}, {"hold": True}, {"not_before": yard.now + 3}):
            yard.serial(deadline=yard.now + 500, **options)
        for how in (cancel, pause, deregister):
            how(yard, yard.start_one())
            yard.pass_time(101)
            yard.register()
        while waiting := [task for task in yard.tasks() if task.state in ("pending", "failed")]:
            yard.resume(waiting[-1])
            yard.complete(yard.start_one())
        yard.deregister()
        yard.deregister("other")
        yard.pass_time(1_000)
        yard.pass_time(1_000)
        yard.scheduler.take_events()
        yard.scheduler.take_stops()

    live()
    before = object_count(yard.scheduler)
    for _ in range(20):
        live()
        assert yard.scheduler.next_due() is None
    assert yard.tasks() == []
    assert yard.scheduler.targets.after("") == []
    assert object_count(yard.scheduler) < before + 10, "figures that grow are other objects"
