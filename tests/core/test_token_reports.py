"""Tokens that come with heartbeats and renewals (docs/rules.md, Budgets, Heartbeats, Renewal)."""

import pytest

from taskyard_server.core.errors import BadRequest, LeaseLost, NotFound
from taskyard_server.core.figures.figures import stats_of


def heartbeat(yard, stream, *uses):
    """Send a heartbeat that lists each of these leases with the tokens that its attempt used."""
    tokens = [(lease.task.id, lease.token, used) for lease, used in uses]
    return yard.beat(stream, *(lease for lease, _ in uses), tokens=tokens)


def by_heartbeat(yard, stream, lease, used):
    heartbeat(yard, stream, (lease, used))


def by_renewal(yard, _, lease, used):
    yard.renew(lease, tokens=used)


BOTH = pytest.mark.parametrize("report", [by_heartbeat, by_renewal])


def at_work(yard, **options):
    """A stream, and the lease of a started task with these options."""
    stream = yard.stream()
    yard.submit(deadline=yard.now + 100_000, **options)
    lease = yard.dispatch_one()
    yard.start(lease)
    yard.scheduler.take_events()
    return stream, lease


def kinds(yard):
    return [(event.kind, event.state, event.history.tokens_used) for event in yard.scheduler.take_events()]


@BOTH
def test_tokens_are_counted_for_the_task_and_its_agent(yard, report):
    stream, lease = at_work(yard)
    report(yard, stream, lease, 7)
    report(yard, stream, lease, 9)
    assert lease.task.history.tokens_used == 9
    assert stats_of(yard.scheduler).agents["ann"].tokens_used == 9


@BOTH
def test_they_are_totals_of_the_attempt_and_never_take_back(yard, report):
    stream, lease = at_work(yard)
    for used, total in ((10, 10), (3, 10), (0, 10), (11, 11)):
        report(yard, stream, lease, used)
        assert lease.task.history.tokens_used == total


@BOTH
def test_there_is_an_event_only_where_the_count_changed(yard, report):
    stream, lease = at_work(yard)
    report(yard, stream, lease, 7)
    assert kinds(yard) == [("progressed", "running", 7)]
    for used in (7, 3, 0):
        report(yard, stream, lease, used)
    assert kinds(yard) == []
    report(yard, stream, lease, 8)
    assert kinds(yard) == [("progressed", "running", 8)]


@BOTH
def test_the_first_report_of_no_tokens_has_an_event(yard, report):
    """Until then it is not known that the host counts tokens."""
    stream, lease = at_work(yard)
    report(yard, stream, lease, 0)
    assert kinds(yard) == [("progressed", "running", 0)]


@BOTH
def test_progress_stays_as_it_was(yard, report):
    stream, lease = at_work(yard)
    yard.progress(lease, b"half")
    report(yard, stream, lease, 7)
    assert lease.task.progress == b"half"


def test_over_the_budget_a_heartbeat_fails_the_task_and_its_host_is_told_to_stop(yard):
    stream, lease = at_work(yard, token_limit=100)
    heartbeat(yard, stream, (lease, 100))
    assert lease.task.state == "running"
    heartbeat(yard, stream, (lease, 101))
    assert (lease.task.state, lease.task.error, lease.task.lease) == ("failed", "token limit exceeded", None)
    assert yard.stops() == [(lease, "token_limit_exceeded", "token limit exceeded")]
    with pytest.raises(LeaseLost):
        yard.complete(lease)


def test_over_the_budget_a_renewal_fails_the_task_and_is_refused(yard):
    _, lease = at_work(yard, token_limit=100)
    yard.renew(lease, tokens=100)
    with pytest.raises(LeaseLost, match=r"^lease lost: token limit exceeded$"):
        yard.renew(lease, tokens=101)
    assert (lease.task.state, lease.task.error) == ("failed", "token limit exceeded")
    assert yard.stops() == [(lease, "token_limit_exceeded", "token limit exceeded")]


def test_the_event_of_the_tokens_comes_before_that_of_the_failure(yard):
    stream, lease = at_work(yard, token_limit=100)
    heartbeat(yard, stream, (lease, 101))
    assert kinds(yard) == [("progressed", "running", 101), ("changed", "failed", 101)]


def test_a_heartbeat_that_fails_one_task_counts_the_tokens_of_the_others(yard):
    stream, first = at_work(yard, token_limit=10)
    yard.give_credit(stream, 2)
    for _ in range(2):
        yard.submit(token_limit=10)
    second, third = yard.dispatch()
    yard.start(second)
    yard.start(third)
    lost = heartbeat(yard, stream, (first, 11), (second, 5), (third, 12))
    assert lost == [], "the host learns of them by their stops"
    assert [lease.task.state for lease in (first, second, third)] == ["failed", "running", "failed"]
    assert second.task.history.tokens_used == 5
    assert [stop[0] for stop in yard.stops()] == [first, third]


def test_the_next_heartbeat_answers_that_the_lease_has_ended(yard):
    stream, lease = at_work(yard, token_limit=10)
    heartbeat(yard, stream, (lease, 11))
    assert heartbeat(yard, stream, (lease, 12)) == [(lease.task.id, lease.token)]
    assert lease.task.history.tokens_used == 11


def test_tokens_of_a_lease_that_is_named_twice_in_a_heartbeat_count_once(yard):
    stream, lease = at_work(yard, token_limit=10)
    uses = [(lease.task.id, lease.token, used) for used in (4, 4, 11, 20)]
    yard.beat(stream, lease, tokens=uses)
    assert (lease.task.state, lease.task.history.tokens_used) == ("failed", 11)
    assert len(yard.stops()) == 1


def test_tokens_count_also_for_a_lease_that_the_heartbeat_does_not_renew(yard):
    stream, lease = at_work(yard)
    until = lease.expires_at
    yard.pass_time(10)
    yard.beat(stream, tokens=[(lease.task.id, lease.token, 5)])
    assert (lease.task.history.tokens_used, lease.expires_at) == (5, until)


# Wrong reports


@pytest.mark.parametrize("wrong", ["token before", "token after", "unknown task", "task of another host"])
def test_tokens_under_a_lease_that_the_host_does_not_hold_change_nothing(yard, watch, wrong):
    stream, lease = at_work(yard, token_limit=10)
    yard.register("other")
    yard.submit("bob", token_limit=10)
    foreign = yard.start_one("other")
    use = {
        "token before": (lease.task.id, lease.token - 1, 99),
        "token after": (lease.task.id, lease.token + 1, 99),
        "unknown task": ("tsk_nope", 1, 99),
        "task of another host": (foreign.task.id, foreign.token, 99),
    }[wrong]
    changes = watch(yard.scheduler)
    yard.beat(stream, tokens=[use])
    assert changes() == []


def test_tokens_in_a_heartbeat_are_not_counted_for_a_task_that_has_not_started(yard, watch):
    stream = yard.stream()
    yard.submit(token_limit=10)
    lease = yard.dispatch_one()
    changes = watch(lease.task)
    yard.beat(stream, tokens=[(lease.task.id, lease.token, 99)])
    assert changes() == []
    yard.start(lease)
    heartbeat(yard, stream, (lease, 5))
    assert lease.task.history.tokens_used == 5


def test_a_renewal_with_tokens_counts_as_a_start(yard):
    lease = yard.leased()
    yard.now += 1
    yard.renew(lease, tokens=5)
    assert (lease.task.state, lease.task.started_at, lease.task.history.tokens_used) == ("running", yard.now, 5)


def test_a_renewal_under_a_lost_lease_counts_no_tokens(yard):
    lease = yard.leased()
    yard.cancel(lease.task)
    with pytest.raises(LeaseLost):
        yard.renew(lease, tokens=5)
    assert lease.task.history.tokens_used is None


def test_a_renewal_of_a_wrong_length_counts_no_tokens(yard):
    lease = yard.leased()
    with pytest.raises(BadRequest, match="lease_secs"):
        yard.renew(lease, 0.5, tokens=5)
    assert (lease.task.state, lease.task.history.tokens_used) == ("assigned", None)


def test_a_renewal_by_an_unknown_host_counts_no_tokens(yard):
    lease = yard.leased()
    yard.deregister()
    with pytest.raises(NotFound):
        yard.renew(lease, tokens=5)
    assert lease.task.history.tokens_used is None


# Over attempts and runs


@BOTH
def test_tokens_of_an_attempt_come_on_top_of_those_of_earlier_ones(yard, report):
    stream, lease = at_work(yard)
    report(yard, stream, lease, 30)
    yard.release(lease)
    yard.give_credit(stream)
    again = yard.dispatch_one()
    yard.start(again)
    report(yard, stream, again, 5)
    assert lease.task.history.tokens_used == 35
    yard.pause(lease.task)
    yard.resume(lease.task)
    yard.give_credit(stream)
    third = yard.dispatch_one()
    yard.start(third)
    report(yard, stream, third, 0)
    assert lease.task.history.tokens_used == 35


def test_heartbeats_and_reports_of_one_attempt_agree_on_the_largest_figure(yard):
    stream, lease = at_work(yard)
    heartbeat(yard, stream, (lease, 10))
    yard.progress(lease, tokens=8)
    yard.renew(lease, tokens=12)
    yard.complete(lease, tokens=11)
    assert (lease.task.state, lease.task.history.tokens_used) == ("done", 12)
    assert stats_of(yard.scheduler).agents["ann"].tokens_used == 12


def test_a_heartbeat_after_a_resume_with_a_higher_limit_is_measured_by_that(yard):
    stream, lease = at_work(yard, token_limit=10)
    heartbeat(yard, stream, (lease, 11))
    yard.resume(lease.task, token_limit=20)
    yard.give_credit(stream)
    again = yard.dispatch_one()
    yard.start(again)
    heartbeat(yard, stream, (again, 9))
    assert lease.task.state == "running"
    heartbeat(yard, stream, (again, 10))
    assert lease.task.error == "token limit exceeded"


def test_over_the_budget_the_target_stays_taken_until_the_host_has_stopped(yard):
    stream, lease = at_work(yard, token_limit=10, target="t")
    behind = yard.submit(target="t")
    heartbeat(yard, stream, (lease, 11))
    yard.cancel(lease.task)
    yard.register("other")
    assert yard.claim("other") == []
    yard.report_stopped(lease)
    assert yard.claim_one("other").task is behind
