"""Pause, resume, resolve: the state diagram by commands, and what a resumed task brings along and what not."""

from itertools import product

import pytest

from taskyard_server.core.errors import Conflict, LeaseLost, Refusal, Unavailable
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.task import LEGAL, TERMINAL, TaskState

TRY_AGAIN = RetryPolicy(max_attempts=5, first_delay_secs=5.0)


class Case:
    """One task and, if it was ever handed out, the last lease of it."""

    def __init__(self, yard, **wish):
        yard.register()
        self.yard = yard
        self.task = yard.submit(deadline=yard.now + 1_000, **wish)
        self.lease = None

    def claim(self):
        self.lease = self.yard.claim_one(lease_secs=3_600)
        return self

    def start(self):
        self.yard.start(self.lease)
        return self

    def end(self, how):
        how(self)
        return self


# How a task comes into each state, by commands alone.

STATES = {
    "pending, held": lambda yard: Case(yard, hold=True),
    "pending, not due": lambda yard: Case(yard, not_before=yard.now + 5),
    "pending, next attempt": lambda yard: Case(yard, retry=TRY_AGAIN).claim().start().end(report_failure),
    "queued": Case,
    "queued again": lambda yard: Case(yard).claim().end(release),
    "assigned": lambda yard: Case(yard).claim(),
    "assigned, may be retried": lambda yard: Case(yard, retry=TRY_AGAIN).claim(),
    "running": lambda yard: Case(yard).claim().start(),
    "running, may be retried": lambda yard: Case(yard, retry=TRY_AGAIN).claim().start(),
    "paused": lambda yard: Case(yard).claim().start().end(pause),
    "paused, assigned": lambda yard: Case(yard).claim().end(pause),
    "done": lambda yard: Case(yard).claim().start().end(complete),
    "failed": lambda yard: Case(yard).claim().start().end(report_failure),
    "failed, blocks": lambda yard: Case(yard, target="t").claim().start().end(report_failure),
    "cancelled": lambda yard: Case(yard).claim().start().end(cancel),
}


def pause(case):
    case.yard.pause(case.task)


def resume(case):
    case.yard.resume(case.task)


def resolve(case):
    case.yard.resolve(case.task)


def cancel(case):
    case.yard.cancel(case.task)


def start(case):
    case.yard.start(case.lease)


def complete(case):
    case.yard.complete(case.lease)


def report_failure(case):
    case.yard.fail(case.lease)


def release(case):
    case.yard.release(case.lease)


def claim(case):
    assert case.yard.claim()


def meet_its_deadline(case):
    if case.task.deadline is None or case.task.state in TERMINAL:
        return
    case.yard.reconfigure(heartbeat_timeout_secs=10_000.0)
    case.yard.pass_time(case.task.deadline - case.yard.now + 0.2)


# DESIGN, Task states, and the comments of the RPCs: which command leads where. What is not here is refused.

LEADS_TO = {
    "pending, held": {resume: "queued", cancel: "cancelled"},
    "pending, not due": {cancel: "cancelled"},
    "pending, next attempt": {cancel: "cancelled"},
    "queued": {claim: "assigned", cancel: "cancelled"},
    "queued again": {claim: "assigned", cancel: "cancelled"},
    "assigned": {
        start: "running",
        release: "queued",
        complete: "done",
        report_failure: "failed",
        pause: "paused",
        cancel: "cancelled",
    },
    "assigned, may be retried": {
        start: "running",
        release: "queued",
        complete: "done",
        report_failure: "pending",
        pause: "paused",
        cancel: "cancelled",
    },
    "running": {
        release: "queued",
        complete: "done",
        report_failure: "failed",
        pause: "paused",
        cancel: "cancelled",
    },
    "running, may be retried": {
        release: "queued",
        complete: "done",
        report_failure: "pending",
        pause: "paused",
        cancel: "cancelled",
    },
    "paused": {resume: "queued", resolve: "done", cancel: "cancelled"},
    "paused, assigned": {resume: "queued", resolve: "done", cancel: "cancelled"},
    "done": {},
    "failed": {resume: "queued", resolve: "done"},
    "failed, blocks": {resume: "queued", resolve: "done", cancel: "cancelled"},
    "cancelled": {},
}
OF_AGENTS = (pause, resume, resolve, cancel)
OF_HOSTS = (start, complete, report_failure, release)
ALLOWED = [(state, command) for state, commands in LEADS_TO.items() for command in commands]
REFUSED = [(state, command) for state, command in product(STATES, OF_AGENTS) if command not in LEADS_TO[state]]
STALE = [
    (state, command)
    for state, command in product(STATES, OF_HOSTS)
    if command not in LEADS_TO[state] and state not in ("pending, held", "pending, not due", "queued")
]


def name(part):
    return part if isinstance(part, str) else part.__name__


@pytest.mark.parametrize(("state", "command"), ALLOWED, ids=name)
def test_a_command_that_the_diagram_allows_leads_where_it_says(yard, state, command):
    case = STATES[state](yard)
    assert case.task.state == state.split(",")[0].split(" ")[0]
    yard.transitions()
    command(case)
    assert case.task.state == LEADS_TO[state][command]
    assert yard.transitions()[-1] == (case.task.id, case.task.state)


@pytest.mark.parametrize(("state", "command"), REFUSED, ids=name)
def test_every_other_command_is_a_conflict_and_changes_nothing(yard, watch, state, command):
    case = STATES[state](yard)
    changes = watch(yard.scheduler)
    with pytest.raises(Conflict):
        command(case)
    assert changes() == []


@pytest.mark.parametrize(("state", "command"), STALE, ids=name)
def test_every_other_report_is_lost_or_a_conflict_and_changes_nothing(yard, watch, state, command):
    case = STATES[state](yard)
    changes = watch(yard.scheduler)
    with pytest.raises((Conflict, LeaseLost)):
        command(case)
    assert [line for line in changes() if ".late_reports" not in line] == []


@pytest.mark.parametrize("state", [state for state in STATES if claim not in LEADS_TO[state]])
def test_only_a_queued_task_is_claimed(yard, state):
    case = STATES[state](yard)
    assert yard.claim() == []
    assert case.task.lease is None or case.task.lease is case.lease


REPORTED_AS_STARTED_FIRST = (TaskState.ASSIGNED, TaskState.DONE)


def test_the_commands_and_time_reach_every_arrow_of_the_table_and_no_other(make_yard):
    seen = set()
    for state, command in [*ALLOWED, *product(STATES, (meet_its_deadline, pass_some_time, lose_the_host))]:
        yard = make_yard()
        case = STATES[state](yard)
        try:
            command(case)
        except Refusal:
            continue
        seen |= {(event.before, event.state) for event in yard.scheduler.take_events() if event.kind == "changed"}
    arrows = {(before, after) for before in TaskState for after in LEGAL[before]}
    assert seen == arrows - {REPORTED_AS_STARTED_FIRST}


def pass_some_time(case):
    case.yard.pass_time(6)


def lose_the_host(case):
    case.yard.pass_time(121)


@pytest.mark.parametrize(("command", "words"), [(pause, "paused"), (resume, "resumed"), (resolve, "resolved")])
def test_a_conflict_names_the_state_and_what_could_be_done_to_which(yard, command, words):
    with pytest.raises(Conflict, match=rf"^task is done, only an? .* can be {words}$"):
        command(STATES["done"](yard))


# Pause


def test_a_paused_task_says_why_and_has_lost_its_lease(yard):
    case = STATES["paused"](yard)
    assert (case.task.error, case.task.lease) == ("Job was interrupted by user", None)
    assert case.task.completed_at is None
    assert yard.scheduler.hosts.get("host").leases == {}


def test_a_paused_task_has_no_deadline_that_could_pass(yard):
    case = STATES["paused"](yard)
    assert case.task.deadline is None
    yard.pass_time(1_000_000)
    assert case.task.state == "paused"
    assert yard.scheduler.get(case.task.id) is case.task


@pytest.mark.parametrize("report", [complete, report_failure])
def test_a_pause_that_races_with_the_end_has_one_outcome(make_yard, report):
    for first, second in ((pause, report), (report, pause)):
        yard = make_yard()
        case = STATES["running"](yard)
        first(case)
        outcome = case.task.state
        with pytest.raises((Conflict, LeaseLost)):
            second(case)
        assert case.task.state is outcome
        counters = yard.scheduler.stats().counters
        assert counters.completed + counters.failed == (first is report)


# Resume


def test_a_resumed_task_has_a_fresh_deadline_of_its_original_length(yard):
    case = STATES["paused"](yard)
    yard.pass_time(777)
    resume(case)
    assert case.task.deadline == yard.now + 1_000


def test_a_default_deadline_counts_anew_from_the_resume(make_yard):
    yard = make_yard(default_deadline_secs=60.0)
    yard.register()
    task = yard.submit()
    yard.pause(yard.start_one().task)
    yard.pass_time(100)
    yard.resume(task)
    assert task.deadline == yard.now + 60
    yard.pass_time(60.2)
    assert (task.state, task.error) == ("failed", "deadline exceeded while queued")


@pytest.mark.parametrize("state", ["paused", "failed", "failed, blocks"])
def test_a_resumed_task_shows_nothing_of_its_last_end(yard, state):
    case = STATES[state](yard)
    case.yard.pass_time(1)
    resume(case)
    task = case.task
    assert (task.error, task.completed_at, task.result, task.progress) == (None, None, None, None)
    assert task.history.attempts == ()


@pytest.mark.parametrize("state", ["paused", "failed"])
def test_a_resumed_task_gets_a_fresh_lease_and_the_old_one_stays_lost(yard, state):
    case = STATES[state](yard)
    old = case.lease
    resume(case)
    case.claim()
    assert case.lease.token > old.token
    for report in (yard.start, yard.complete, yard.fail, yard.release, yard.renew):
        with pytest.raises(LeaseLost):
            report(old)
    start(case)
    complete(case)
    assert case.task.state == "done"


def test_every_resume_is_another_run_and_deliveries_count_anew(make_yard):
    yard = make_yard(max_deliveries=2)
    yard.register()
    task = yard.submit(deadline=yard.now + 100_000)
    for run in range(1, 5):
        assert task.history.run == run
        for state in ("queued", "failed"):
            yard.claim_one()
            yard.pass_time(61)
            assert task.state == state
        yard.resume(task)


def test_the_first_start_and_the_last_host_stay(yard):
    case = STATES["paused"](yard)
    started_at = case.task.started_at
    yard.pass_time(10)
    resume(case)
    assert (case.task.started_at, case.task.host_id) == (started_at, "host")


def test_a_resumed_task_takes_its_old_place(yard):
    yard.register()
    first = yard.submit("ann")
    yard.pause(yard.start_one().task)
    second, urgent = yard.submit("ann"), yard.submit("ann", priority=-1)
    yard.resume(first)
    assert [lease.task for lease in yard.claim(count=3)] == [urgent, first, second]


def test_admission_limits_do_not_apply_to_a_resume(make_yard):
    yard = make_yard(max_queue_size=2, max_per_agent=2)
    yard.register()
    task = yard.submit()
    yard.pause(yard.start_one().task)
    yard.submit(), yard.submit()
    yard.resume(task)
    assert yard.scheduler.stats().queued == 3


def test_while_the_scheduler_drains_a_resume_is_unavailable_and_changes_nothing(yard, watch):
    stopped, held, running = STATES["paused"](yard), STATES["pending, held"](yard), STATES["running"](yard)
    yard.scheduler.drain()
    changes = watch(yard.scheduler)
    for case in (stopped, held):
        with pytest.raises(Unavailable):
            resume(case)
    assert changes() == []
    with pytest.raises(Conflict):
        resume(running)


def test_a_resolved_task_is_done_with_the_given_result(yard):
    for state in ("paused", "failed"):
        case = STATES[state](yard)
        yard.pass_time(5)
        yard.resolve(case.task, b"by hand")
        task = case.task
        assert (task.state, task.result, task.error, task.completed_at) == ("done", b"by hand", None, yard.now)


# Figures


def figures(yard):
    """Submitted, and all that it must be the sum of: completed, failed, cancelled, and what is live."""
    stats = yard.scheduler.stats()
    counters = stats.counters
    ended = counters.completed + counters.failed - counters.reopened + counters.cancelled
    return counters.submitted, ended + stats.queued + stats.inflight + stats.paused


@pytest.mark.parametrize(("state", "command"), ALLOWED, ids=name)
def test_submitted_is_always_what_ended_and_what_is_live(yard, state, command):
    case = STATES[state](yard)
    assert figures(yard) == (1, 1)
    command(case)
    assert figures(yard) == (1, 1)
    agent = yard.scheduler.stats().agents["ann"]
    live = agent.queued + agent.inflight + yard.scheduler.stats().paused
    assert agent.completed + agent.failed + agent.cancelled + live == agent.submitted


def test_a_paused_task_counts_neither_as_queued_nor_as_in_flight(yard):
    STATES["paused"](yard)
    stats = yard.scheduler.stats()
    assert (stats.queued, stats.inflight, stats.paused) == (0, 0, 1)
    assert (stats.agents["ann"].queued, stats.agents["ann"].inflight) == (0, 0)


def test_a_paused_task_leaves_room_for_others(make_yard):
    yard = make_yard(max_inflight=1, max_queue_size=1)
    yard.register()
    yard.submit()
    yard.pause(yard.start_one().task)
    yard.submit()
    assert len(yard.claim()) == 1


# Events


def test_an_event_shows_the_task_as_it_was_whatever_came_after_in_the_same_moment(yard):
    case = STATES["running"](yard)
    yard.scheduler.take_events()
    first_deadline = case.task.deadline
    report_failure(case)
    yard.pass_time(3)
    resume(case)
    case.claim().start()
    failed, queued, assigned, running = yard.scheduler.take_events()
    assert (failed.state, failed.deadline, failed.history.run) == ("failed", first_deadline, 1)
    assert (queued.state, queued.deadline, queued.history.run) == ("queued", yard.now + 1_000, 2)
    assert (assigned.attempt_started_at, running.attempt_started_at) == (None, yard.now)


# Shutdown and drains


def test_a_shutdown_pauses_what_is_in_flight_and_cancels_what_waits(yard):
    live = {state: STATES[state](yard) for state in ("running", "paused", "queued", "pending, held")}
    live["pending, next attempt"] = Case(yard, retry=TRY_AGAIN)
    yard.scheduler.shut_down(yard.now)
    assert {state: case.task.state for state, case in live.items()} == {
        "running": "paused",
        "paused": "paused",
        "queued": "cancelled",
        "pending, held": "cancelled",
        "pending, next attempt": "cancelled",
    }
    assert live["running"].task.error == "Job was interrupted by user"


@pytest.mark.parametrize("state", ["assigned", "running"])
def test_what_a_drained_host_still_holds_after_its_time_is_paused(yard, state):
    case = STATES[state](yard)
    yard.scheduler.drain_host("host", yard.now + 30)
    yard.pass_time(29)
    assert case.task.state == state
    yard.pass_time(1.2)
    assert (case.task.state, case.task.error) == ("paused", "Job was interrupted by user")
    resume(case)
    assert yard.claim() == [], "it still drains"


def test_what_a_drained_host_finishes_in_time_is_done(yard):
    case = STATES["running"](yard)
    yard.scheduler.drain_host("host", yard.now + 30)
    complete(case)
    yard.pass_time(31)
    assert case.task.state == "done"


def test_a_drain_without_a_time_pauses_nothing(yard):
    case = STATES["running"](yard)
    yard.scheduler.drain_host("host")
    yard.pass_time(100)
    assert case.task.state == "running"


@pytest.mark.parametrize("later", [None, 100.0])
def test_of_two_drains_of_a_host_the_last_one_counts(yard, later):
    case = STATES["running"](yard)
    yard.scheduler.drain_host("host", yard.now + 10)
    yard.scheduler.drain_host("host", None if later is None else yard.now + later)
    yard.pass_time(50)
    assert case.task.state == "running"
    yard.pass_time(51)
    assert case.task.state == ("running" if later is None else "paused")


def test_a_host_that_registers_again_drains_no_more(yard):
    case = STATES["running"](yard)
    yard.scheduler.drain_host("host", yard.now + 10)
    yard.register()
    yard.pass_time(11)
    assert case.task.state == "running"


def test_a_host_that_is_deregistered_leaves_no_drain_behind(yard):
    STATES["running"](yard)
    yard.scheduler.drain_host("host", yard.now + 10)
    yard.deregister()
    yard.register()
    lease = yard.start_one()
    yard.pass_time(11)
    assert lease.task.state == "running"
