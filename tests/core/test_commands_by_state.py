"""Each command in each state: where it leads, or how it is refused (docs/rules.md, Task states)."""

from itertools import product

import pytest

from taskyard_server.core.errors import Conflict, LeaseLost, Refusal
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.task import LEGAL, TaskState
from tests.cases import every_case
from tests.core.task_cases import (
    ALLOWED,
    LEADS_TO,
    REFUSED,
    STALE,
    STATES,
    claim,
    lose_the_host,
    meet_its_deadline,
    name,
    pass_some_time,
    pause,
    resolve,
    resume,
)


@every_case(("state", "command"), ALLOWED, ids=name)
def test_an_allowed_command_leads_to_the_state_in_the_table(make_yard, state, command):
    yard = make_yard()
    case = STATES[state](yard)
    assert case.task.state == state.split(",")[0].split(" ")[0]
    yard.transitions()
    command(case)
    assert case.task.state == LEADS_TO[state][command]
    assert yard.transitions()[-1] == (case.task.id, case.task.state)


@every_case(("state", "command"), REFUSED, ids=name)
def test_every_other_command_is_a_conflict_and_changes_nothing(make_yard, watch, state, command):
    yard = make_yard()
    case = STATES[state](yard)
    changes = watch(yard.scheduler)
    with pytest.raises(Conflict):
        command(case)
    assert changes() == []


@every_case(("state", "command"), STALE, ids=name)
def test_every_other_report_is_lost_or_a_conflict_and_changes_nothing(make_yard, watch, state, command):
    yard = make_yard()
    case = STATES[state](yard)
    changes = watch(yard.scheduler)
    with pytest.raises((Conflict, LeaseLost)):
        command(case)
    assert [line for line in changes() if ".late_reports" not in line] == []


@every_case("state", [state for state in STATES if claim not in LEADS_TO[state]])
def test_only_a_queued_task_is_claimed(make_yard, state):
    yard = make_yard()
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


@pytest.mark.parametrize(("command", "words"), [(pause, "paused"), (resume, "resumed"), (resolve, "resolved")])
def test_a_conflict_names_the_state_and_what_could_be_done_to_which(yard, command, words):
    with pytest.raises(Conflict, match=rf"^task is done, only an? .* can be {words}$"):
        command(STATES["done"](yard))


# Figures


def figures(yard):
    """The count of submitted tasks, and the sum of those that completed, failed, were cancelled or are live."""
    stats = stats_of(yard.scheduler)
    counters = stats.counters
    ended = counters.completed + counters.failed - counters.reopened + counters.cancelled
    return counters.submitted, ended + stats.queued + stats.inflight + stats.paused + stats.parked


@every_case(("state", "command"), ALLOWED, ids=name)
def test_submitted_is_always_what_ended_and_what_is_live(make_yard, state, command):
    yard = make_yard()
    case = STATES[state](yard)
    assert figures(yard) == (1, 1)
    command(case)
    assert figures(yard) == (1, 1)
    agent = stats_of(yard.scheduler).agents["ann"]
    stats = stats_of(yard.scheduler)
    live = agent.queued + agent.inflight + stats.paused + stats.parked
    assert agent.completed + agent.failed + agent.cancelled + live == agent.submitted


def test_a_paused_task_counts_neither_as_queued_nor_as_in_flight(yard):
    STATES["paused"](yard)
    stats = stats_of(yard.scheduler)
    assert (stats.queued, stats.inflight, stats.paused) == (0, 0, 1)
    assert (stats.agents["ann"].queued, stats.agents["ann"].inflight) == (0, 0)


def test_a_paused_task_leaves_room_for_others(make_yard):
    yard = make_yard(max_inflight=1, max_queue_size=1)
    yard.register()
    yard.submit()
    yard.pause(yard.start_one().task)
    yard.submit()
    assert len(yard.claim()) == 1
