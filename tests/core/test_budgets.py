"""Budgets: how many tokens a task may use, and what becomes of one that used more (docs/rules.md, Budgets)."""

import pytest

from taskyard_server.core.errors import BadRequest, Conflict, LeaseLost, NotFound, Unavailable
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.history import RetryPolicy, Wait


@pytest.fixture
def yard(yard):
    yard.register()
    return yard


def progress(yard, lease, tokens):
    yard.progress(lease, tokens=tokens)


def complete(yard, lease, tokens):
    yard.complete(lease, b"result", tokens)


def fail(yard, lease, tokens):
    yard.fail(lease, tokens=tokens)


def park(yard, lease, tokens):
    yard.park(lease, Wait("time", f"nap {tokens}", yard.now + 5), tokens=tokens)


REPORTS = [progress, complete, fail, park]


@pytest.mark.parametrize("report", REPORTS)
def test_a_task_over_its_budget_fails_by_every_kind_of_report(yard, report):
    task = yard.submit(token_limit=100)
    report(yard, yard.start_one(), 101)
    assert (task.state, task.error, task.result) == ("failed", "token limit exceeded", None)
    assert task.lease is None


@pytest.mark.parametrize(("report", "state"), list(zip(REPORTS, ["running", "done", "failed", "parked"], strict=True)))
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
    yard.stream()
    yard.submit(token_limit=5)
    lease = yard.dispatch_one()
    progress(yard, lease, 6)
    assert yard.stops() == [(lease, "token_limit_exceeded", "token limit exceeded")]
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
    assert stats_of(yard.scheduler).agents["ann"].tokens_used == 31


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
    agents = stats_of(yard.scheduler).agents
    assert (agents["ann"].tokens_used, agents["bob"].tokens_used) == (8, 4)


def test_a_report_of_tokens_alone_is_an_event_and_keeps_the_progress(yard):
    yard.submit()
    lease = yard.start_one()
    yard.progress(lease, b"half")
    yard.scheduler.take_events()
    progress(yard, lease, 7)
    progress(yard, lease, 9)
    first, second = yard.scheduler.take_events()
    assert (first.kind, first.progress, first.history.tokens_used) == ("progressed", b"half", 7)
    assert second.history.tokens_used == 9


# Resume with another limit


def over_budget(yard, limit=100, used=130, **options):
    """A task that failed because it used more tokens than it may."""
    task = yard.submit(token_limit=limit, **options)
    progress(yard, yard.start_one(), used)
    assert (task.state, task.error) == ("failed", "token limit exceeded")
    return task


def test_a_task_over_its_budget_is_not_resumed_without_a_new_limit_and_the_message_says_so(yard, watch):
    task = over_budget(yard)
    changes = watch(yard.scheduler)
    with pytest.raises(Conflict, match=r"^task has used 130 of 100 tokens, resume it with a higher tokenLimit$"):
        yard.resume(task)
    assert changes() == []


@pytest.mark.parametrize("limit", [0, 99, 100, 129, 130])
def test_a_limit_that_was_reached_already_is_refused_and_changes_nothing(yard, watch, limit):
    task = over_budget(yard)
    changes = watch(yard.scheduler)
    with pytest.raises(BadRequest, match=r"^tokenLimit: must be above the 130 tokens that the task has used$"):
        yard.resume(task, token_limit=limit)
    assert changes() == []


def test_with_a_higher_limit_it_runs_again_and_may_use_the_rest(yard):
    task = over_budget(yard)
    yard.resume(task, token_limit=131)
    assert (task.state, task.token_limit, task.history.tokens_used) == ("queued", 131, 130)
    lease = yard.start_one()
    progress(yard, lease, 1)
    assert task.state == "running"
    progress(yard, lease, 2)
    assert (task.state, task.error) == ("failed", "token limit exceeded")


def test_a_new_limit_holds_over_retries_and_later_runs(yard):
    task = over_budget(yard, retry=RetryPolicy(3, 0.0))
    yard.resume(task, token_limit=200)
    fail(yard, yard.start_one(), 10)
    yard.pass_time(0.2)
    yard.pause(yard.start_one().task)
    yard.resume(task)
    assert (task.token_limit, task.history.tokens_used) == (200, 140)
    progress(yard, yard.start_one(), 61)
    assert (task.state, task.history.tokens_used) == ("failed", 201)
    with pytest.raises(Conflict, match="has used 201 of 200 tokens"):
        yard.resume(task)


def test_the_last_one_of_several_limits_counts_also_a_lower_one(yard):
    task = yard.submit(token_limit=1_000)
    progress(yard, yard.start_one(), 10)
    for limit in (2_000, 11):
        yard.pause(task)
        yard.resume(task, token_limit=limit)
        assert task.token_limit == limit
        yard.start_one()
    progress(yard, task.lease, 2)
    assert task.error == "token limit exceeded"


def test_a_task_without_a_budget_gets_one_by_its_resume(yard):
    task = yard.submit()
    progress(yard, yard.start_one(), 10)
    yard.pause(task)
    yard.resume(task, token_limit=15)
    progress(yard, yard.start_one(), 6)
    assert task.error == "token limit exceeded"


def test_a_task_that_used_no_tokens_may_be_given_a_budget_of_nothing(yard):
    task = yard.submit()
    yard.pause(yard.start_one().task)
    yard.resume(task, token_limit=0)
    lease = yard.start_one()
    progress(yard, lease, 0)
    assert task.state == "running"
    progress(yard, lease, 1)
    assert task.error == "token limit exceeded"


def test_a_held_task_gets_its_new_limit_with_its_release(yard):
    task = yard.submit(hold=True, token_limit=1)
    yard.resume(task, token_limit=50)
    progress(yard, yard.start_one(), 50)
    assert (task.state, task.token_limit) == ("running", 50)


def test_the_resume_of_a_target_takes_a_new_limit_too(yard):
    task = over_budget(yard, target="t")
    yard.resume(task, "t", 500)
    assert (task.state, task.token_limit) == ("queued", 500)


def done(yard):
    yard.submit()
    return yard.complete(yard.start_one())


def running(yard):
    yard.submit()
    return yard.start_one().task


def of_another_target(yard):
    return over_budget(yard, target="other")


@pytest.mark.parametrize(("make", "refusal"), [(done, Conflict), (running, Conflict), (of_another_target, NotFound)])
def test_a_resume_that_is_refused_for_another_reason_sets_no_limit(yard, watch, make, refusal):
    task = make(yard)
    changes = watch(yard.scheduler)
    with pytest.raises(refusal):
        yard.resume(task, "t" if make is of_another_target else None, token_limit=500)
    assert changes() == []


def test_a_resume_while_the_scheduler_drains_sets_no_limit(yard, watch):
    tasks = [over_budget(yard), yard.submit(hold=True)]
    yard.scheduler.drain()
    changes = watch(yard.scheduler)
    for task in tasks:
        with pytest.raises(Unavailable):
            yard.resume(task, token_limit=500)
    assert changes() == []


def test_of_two_resumes_with_limits_the_first_one_counts(yard):
    """The second one comes when the task is queued again."""
    task = over_budget(yard)
    yard.resume(task, token_limit=200)
    with pytest.raises(Conflict, match="task is queued"):
        yard.resume(task, token_limit=10_000)
    assert task.token_limit == 200


def test_reports_of_the_run_before_count_for_nothing_after_a_resume(yard):
    task = yard.submit(token_limit=100)
    lease = yard.start_one()
    progress(yard, lease, 130)
    yard.resume(task, token_limit=200)
    for report in REPORTS:
        with pytest.raises(LeaseLost):
            report(yard, lease, 5_000)
    assert (task.state, task.history.tokens_used) == ("queued", 130)


def test_the_event_of_a_resume_has_the_new_limit_and_earlier_events_keep_theirs(yard):
    task = over_budget(yard)
    earlier = yard.scheduler.take_events()
    yard.resume(task, token_limit=200)
    (event,) = yard.scheduler.take_events()
    assert (event.state, event.history.token_limit, event.history.run) == ("queued", 200, 2)
    assert {each.history.token_limit for each in earlier} == {None}


def test_what_the_runs_between_two_parks_use_is_added_up(yard):
    task = yard.submit(token_limit=100)
    park(yard, yard.start_one(), 60)
    yard.pass_time(6)
    park(yard, yard.start_one(), 40)
    assert (task.state, task.history.tokens_used) == ("parked", 100)
    yard.pass_time(6)
    park(yard, yard.start_one(), 1)
    assert (task.state, task.error, task.history.tokens_used) == ("failed", "token limit exceeded", 101)
