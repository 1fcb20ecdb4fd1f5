"""The table of transitions, and that no command makes another one (docs/rules.md, Task states)."""

from itertools import product

import pytest

from taskyard_server.core.errors import Conflict, LeaseLost, Refusal
from taskyard_server.core.task import IN_FLIGHT, LEGAL, TERMINAL, TaskState
from tests.cases import every_case

# Each transition of the documented table, with what makes it.
ARROWS = {
    ("pending", "queued"): "its time has come, or it is no longer held",
    ("pending", "failed"): "deadline",
    ("pending", "cancelled"): "cancel",
    ("queued", "assigned"): "claim",
    ("queued", "failed"): "deadline",
    ("queued", "cancelled"): "cancel",
    ("assigned", "running"): "report started",
    ("assigned", "queued"): "requeue",
    ("assigned", "pending"): "retry after a delay",
    ("assigned", "paused"): "pause, drain time-out",
    ("assigned", "done"): "report",
    ("assigned", "failed"): "report, deadline",
    ("assigned", "cancelled"): "cancel",
    ("running", "queued"): "requeue",
    ("running", "pending"): "retry after a delay",
    ("running", "paused"): "pause, drain time-out",
    ("running", "done"): "report",
    ("running", "failed"): "report, deadline",
    ("running", "cancelled"): "cancel",
    ("running", "parked"): "report",
    ("parked", "queued"): "something came that it waits for",
    ("parked", "failed"): "deadline, nobody answered",
    ("parked", "cancelled"): "cancel",
    ("paused", "queued"): "resume",
    ("paused", "done"): "resolve",
    ("paused", "cancelled"): "cancel",
    ("failed", "queued"): "resume",
    ("failed", "done"): "resolve",
    ("failed", "cancelled"): "cancel of one that blocks its target",
}


def test_the_states_are_the_documented_words():
    assert [state.value for state in TaskState] == [
        "pending",
        "queued",
        "assigned",
        "running",
        "paused",
        "parked",
        "done",
        "failed",
        "cancelled",
        "rejected",
    ]


def test_terminal_and_in_flight_states_are_the_documented_ones():
    assert sorted(TERMINAL) == ["cancelled", "done", "failed", "rejected"]
    assert sorted(IN_FLIGHT) == ["assigned", "running"]


@every_case(("before", "after"), list(product(TaskState, TaskState)), ids=lambda state: state.value)
def test_the_table_holds_the_arrows_of_the_design_and_no_other(before, after):
    assert (after in LEGAL[before]) == ((before.value, after.value) in ARROWS)


# How commands bring a task into a state. Each returns the present or last lease of the task.


def queued(yard):
    lease = assigned(yard)
    yard.release(lease)
    return lease


def assigned(yard):
    yard.register()
    yard.submit()
    return yard.claim_one()


def running(yard):
    lease = assigned(yard)
    yard.start(lease)
    return lease


def done(yard):
    lease = assigned(yard)
    yard.complete(lease)
    return lease


def failed(yard):
    lease = assigned(yard)
    yard.fail(lease)
    return lease


def cancelled(yard):
    lease = assigned(yard)
    yard.cancel(lease.task)
    return lease


COMMANDS = {
    "cancel": lambda yard, lease: yard.cancel(lease.task),
    "start": lambda yard, lease: yard.start(lease),
    "complete": lambda yard, lease: yard.complete(lease),
    "fail": lambda yard, lease: yard.fail(lease),
    "release": lambda yard, lease: yard.release(lease),
    "renew": lambda yard, lease: yard.renew(lease),
}

# The state after the command, or its refusal. What is missing here is `LeaseLost`.
OUTCOMES = {
    queued: {"cancel": "cancelled"},
    assigned: {
        "cancel": "cancelled",
        "start": "running",
        "complete": "done",
        "fail": "failed",
        "release": "queued",
        "renew": "assigned",
    },
    running: {
        "cancel": "cancelled",
        "start": Conflict,
        "complete": "done",
        "fail": "failed",
        "release": "queued",
        "renew": "running",
    },
    done: {"cancel": Conflict},
    failed: {"cancel": Conflict},
    cancelled: {"cancel": Conflict},
}
CASES = [(reach, command, OUTCOMES[reach].get(command, LeaseLost)) for reach, command in product(OUTCOMES, COMMANDS)]


def case_name(part):
    return part if isinstance(part, str) else part.__name__


@every_case(("reach", "command", "state"), [case for case in CASES if isinstance(case[2], str)], ids=case_name)
def test_a_legal_command_moves_the_task(make_yard, reach, command, state):
    yard = make_yard()
    lease = reach(yard)
    COMMANDS[command](yard, lease)
    assert lease.task.state == state


@every_case(("reach", "command", "refusal"), [case for case in CASES if not isinstance(case[2], str)], ids=case_name)
def test_an_illegal_command_is_refused_and_changes_nothing(make_yard, watch, reach, command, refusal):
    yard = make_yard()
    lease = reach(yard)
    changes = watch(yard.scheduler)
    with pytest.raises(Refusal) as refused:
        COMMANDS[command](yard, lease)
    assert type(refused.value) is refusal
    assert [line for line in changes() if ".late_reports" not in line] == []


def test_a_conflict_names_the_state_that_stands_in_the_way(yard):
    with pytest.raises(Conflict, match=r"^task is already running$"):
        yard.start(running(yard))


def test_a_rejected_task_can_be_neither_cancelled_nor_claimed(make_yard):
    yard = make_yard(max_queue_size=1)
    yard.register()
    yard.submit("ann")
    with pytest.raises(Refusal) as full:
        yard.submit("bob")
    with pytest.raises(Conflict, match="rejected"):
        yard.cancel(full.value.task)
    assert [lease.task.agent_id for lease in yard.claim(count=5)] == ["ann"]


# Not every state can be reached with a lease. Here a task is put into each state by force: no command may make a
# transition that is not in the table.


def shortly_leased(yard):
    yard.register()
    yard.submit()
    return yard.claim_one(lease_secs=5)


def meet_deadline(yard, lease):
    yard.scheduler.life.expire(yard.now, lease.task)


def outlive_lease(yard, lease):
    yard.pass_time(lease.expires_at + 1 - yard.now)


def claim_again(yard, _):
    yard.claim()


def lose_host(yard, _):
    yard.deregister()


MOVES = {
    "cancel": (assigned, lambda yard, lease: yard.cancel(lease.task), "cancelled"),
    "start": (assigned, lambda yard, lease: yard.start(lease), "running"),
    "complete": (running, lambda yard, lease: yard.complete(lease), "done"),
    "fail": (running, lambda yard, lease: yard.fail(lease), "failed"),
    "release": (running, lambda yard, lease: yard.release(lease), "queued"),
    "deregister": (running, lose_host, "queued"),
    "lease end": (shortly_leased, outlive_lease, "queued"),
    "deadline": (running, meet_deadline, "failed"),
    "claim": (queued, claim_again, "assigned"),
}
ILLEGAL = [
    (command, state) for command, state in product(MOVES, TaskState) if (state.value, MOVES[command][2]) not in ARROWS
]


@every_case(("command", "state"), ILLEGAL, ids=str)
def test_no_command_makes_a_move_that_has_no_arrow(make_yard, command, state):
    yard = make_yard()
    reach, act, _ = MOVES[command]
    lease = reach(yard)
    yard.transitions()
    lease.task.state = state
    with pytest.raises(Conflict):
        act(yard, lease)
    assert lease.task.state is state
    assert yard.transitions() == []
