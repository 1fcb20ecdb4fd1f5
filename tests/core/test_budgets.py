"""Budgets: what a task may use of tokens, and what becomes of one that used more (DESIGN, Budgets)."""

import pytest

from taskyard_server.core.errors import LeaseLost
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.streams import Hello


@pytest.fixture
def yard(yard):
    yard.register()
    return yard


def progress(yard, lease, tokens):
    yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, None, tokens)


def complete(yard, lease, tokens):
    yard.scheduler.reports.complete(yard.now, "host", lease.task.id, lease.token, b"r", tokens)


def fail(yard, lease, tokens):
    yard.scheduler.reports.fail(yard.now, "host", lease.task.id, lease.token, "broken", tokens=tokens)


REPORTS = [progress, complete, fail]


@pytest.mark.parametrize("report", REPORTS)
def test_over_its_budget_a_task_fails_whatever_was_reported(yard, report):
    task = yard.submit(token_limit=100)
    report(yard, yard.start_one(), 101)
    assert (task.state, task.error, task.result) == ("failed", "token limit exceeded", None)
    assert task.lease is None


@pytest.mark.parametrize(("report", "state"), list(zip(REPORTS, ["running", "done", "failed"], strict=True)))
def test_the_whole_budget_may_be_used(yard, report, state):
    task = yard.submit(token_limit=100)
    report(yard, yard.start_one(), 100)
    assert (task.state, task.history.tokens_used) == (state, 100)
    assert task.error != "token limit exceeded"


def test_without_a_budget_there_is_no_limit(yard):
    task = yard.submit()
    complete(yard, yard.start_one(), 2**32 - 1)
    assert (task.state, task.history.tokens_used) == ("done", 2**32 - 1)


def test_a_budget_of_nothing_is_a_budget(yard):
    task = yard.submit(token_limit=0)
    lease = yard.start_one()
    progress(yard, lease, 0)
    assert task.state == "running"
    progress(yard, lease, 1)
    assert task.error == "token limit exceeded"


def test_a_task_that_never_reported_tokens_used_none(yard):
    task = yard.submit(token_limit=5)
    yard.complete(yard.start_one())
    assert (task.state, task.history.tokens_used) == ("done", None)


def test_the_host_of_a_task_over_its_budget_is_told_to_stop_and_its_reports_are_lost(yard):
    stream = yard.scheduler.connect(yard.now, Hello("host", "i1")).offer
    yard.scheduler.give_credit(yard.now, stream, 1)
    yard.submit(token_limit=5)
    ((lease,),) = yard.scheduler.dispatch(yard.now).values()
    progress(yard, lease, 6)
    ((told, reason, message),) = yard.scheduler.take_stops()
    assert (told, reason, message) == (lease, "token_limit_exceeded", "token limit exceeded")
    with pytest.raises(LeaseLost):
        complete(yard, lease, 6)


def test_the_budget_covers_all_attempts_and_all_runs(yard):
    task = yard.submit(token_limit=100, retry=RetryPolicy(3, 0.0))
    fail(yard, yard.start_one(), 40)
    yard.pass_time(0.2)
    lease = yard.start_one()
    progress(yard, lease, 10)
    assert task.history.tokens_used == 50
    yard.pause(task)
    yard.resume(task)
    lease = yard.start_one()
    progress(yard, lease, 50)
    assert (task.state, task.history.tokens_used) == ("running", 100)
    progress(yard, lease, 51)
    assert (task.state, task.error) == ("failed", "token limit exceeded")


def test_what_an_attempt_used_before_it_was_given_back_counts(yard):
    task = yard.submit()
    lease = yard.start_one()
    progress(yard, lease, 30)
    yard.release(lease)
    progress(yard, yard.start_one(), 5)
    assert task.history.tokens_used == 35


def test_reports_of_one_attempt_are_totals_and_never_take_back(yard):
    task = yard.submit()
    lease = yard.start_one()
    for tokens, total in ((10, 10), (30, 30), (20, 30), (0, 30), (31, 31)):
        progress(yard, lease, tokens)
        assert task.history.tokens_used == total
    assert yard.scheduler.stats().agents["ann"].tokens_used == 31


def test_over_the_budget_there_is_no_further_attempt(yard):
    task = yard.submit(token_limit=5, retry=RetryPolicy(3, 0.0))
    fail(yard, yard.start_one(), 6)
    assert (task.state, task.error) == ("failed", "token limit exceeded")


def test_a_task_that_used_all_of_its_budget_can_be_paused_and_resumed(yard):
    task = yard.submit(token_limit=5)
    progress(yard, yard.start_one(), 5)
    yard.pause(task)
    assert (task.state, task.error) == ("paused", "Job was interrupted by user")
    yard.resume(task)
    progress(yard, yard.start_one(), 1)
    assert (task.state, task.error) == ("failed", "token limit exceeded")


def test_tokens_are_summed_by_agent(yard):
    for agent, tokens in (("ann", 3), ("bob", 4), ("ann", 5)):
        yard.submit(agent)
        complete(yard, yard.start_one(), tokens)
    agents = yard.scheduler.stats().agents
    assert (agents["ann"].tokens_used, agents["bob"].tokens_used) == (8, 4)


def test_a_report_of_tokens_alone_is_an_event_and_keeps_the_progress(yard):
    yard.submit()
    lease = yard.start_one()
    yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, b"half")
    yard.scheduler.take_events()
    progress(yard, lease, 7)
    progress(yard, lease, 9)
    first, second = yard.scheduler.take_events()
    assert (first.kind, first.progress, first.history.tokens_used) == ("progressed", b"half", 7)
    assert second.history.tokens_used == 9
