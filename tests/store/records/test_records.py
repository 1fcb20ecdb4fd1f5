"""What is written as a record is read as it was."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as some

from taskyard_server.cadence import Cron, Every, Once
from taskyard_server.core.agents import Agent, AgentFigures
from taskyard_server.core.history import Artifact, Attempt, Bound, History, Park, RetryPolicy, Wait
from taskyard_server.core.hosts import Host, HostProfile, Tabs
from taskyard_server.core.leases import Lease
from taskyard_server.core.schedules.processed_times import TimeRange
from taskyard_server.core.schedules.schedule import CatchUp, Overlap, Schedule, ScheduleSpec, Trigger, TriggerState
from taskyard_server.core.task import NO_EXTRAS, TASK_FIELDS, Submission, Task, TaskState
from taskyard_server.core.task_options import (
    AfterPolicy,
    IdempotencyKey,
    OnConflict,
    OnParentEnd,
    OnTargetFailure,
    TaskExtras,
    TaskOptions,
    UniqueWhile,
)
from taskyard_server.store.loading import to_task
from taskyard_server.store.records.records import (
    decode_agent,
    decode_host,
    decode_state,
    decode_stopping,
    decode_task,
    encode_host,
    encode_stopping,
    to_profile,
)
from taskyard_server.store.records.schedules import (
    decode_schedule,
    decode_trigger,
    encode_schedule,
    encode_trigger,
    to_schedule,
    to_trigger,
)
from taskyard_server.store.records.tasks import encode_agent, encode_state, encode_task
from tests.core.records import names

TEXT = some.text(max_size=20)
NAME = some.none() | TEXT
TIME = some.floats(0, 1e11)
AT = some.none() | TIME
COUNT = some.integers(0, 2**53)
BYTES = some.none() | some.binary(max_size=50)
RETRIES = some.builds(RetryPolicy, COUNT, TIME, TIME, TIME, some.frozensets(TEXT, max_size=3))
KEYS = some.builds(IdempotencyKey, TEXT, some.binary(max_size=32))
WORDS = some.lists(TEXT, max_size=3).map(tuple)
EXTRAS = some.just(NO_EXTRAS) | some.builds(
    TaskExtras,
    WORDS,
    WORDS,
    some.just(()),
    some.none() | some.sampled_from(AfterPolicy),
    NAME,
    some.none() | some.sampled_from(UniqueWhile),
    some.none() | some.sampled_from(OnConflict),
    some.none() | some.sampled_from(OnTargetFailure),
    NAME,
    some.lists(some.tuples(TEXT, TEXT), max_size=3).map(tuple),
    some.just(()),
    some.none() | some.sampled_from(OnParentEnd),
    NAME,
)
OPTIONS = some.builds(
    TaskOptions,
    NAME,
    NAME,
    some.frozensets(TEXT, max_size=3),
    some.lists(some.tuples(TEXT, TEXT), max_size=3).map(tuple),
    NAME,
    some.just("door"),
    NAME,
    some.none() | KEYS,
    some.booleans(),
    AT,
    some.none() | COUNT,
    some.none() | RETRIES,
    NAME,
    AT,
    NAME,
    BYTES,
    EXTRAS,
)
ATTEMPTS = some.builds(Attempt, COUNT, NAME, AT, AT, NAME, NAME)
BOUND = some.lists(some.builds(Bound, TEXT, some.binary(max_size=32), TIME), max_size=2).map(tuple)
ARTIFACTS = some.builds(Artifact, TEXT, TEXT, COUNT, some.binary(max_size=32), COUNT, TIME, COUNT, TEXT)
WAITS = some.builds(Wait, TEXT, TEXT, AT, some.lists(TEXT, max_size=2).map(tuple), BYTES, BYTES)
PARKS = some.builds(
    Park,
    TIME,
    COUNT,
    some.lists(WAITS, max_size=2).map(tuple),
    some.lists(TEXT, max_size=2).map(tuple),
    AT,
    some.booleans(),
    some.lists(some.tuples(TEXT, COUNT), max_size=2).map(tuple),
)
HISTORIES = some.builds(
    History,
    COUNT,
    some.lists(ATTEMPTS, max_size=3).map(tuple),
    COUNT,
    COUNT,
    some.booleans(),
    AT,
    COUNT,
    some.none() | COUNT,
    some.none() | COUNT,
    NAME,
    NAME,
    BYTES,
    BOUND,
    some.lists(ARTIFACTS, max_size=2).map(tuple),
    COUNT,
    COUNT,
    some.none() | PARKS,
    some.none() | TEXT,
    some.lists(COUNT, max_size=2).map(tuple),
)
PROFILES = some.builds(
    HostProfile,
    some.frozensets(TEXT, max_size=3),
    NAME,
    some.none() | some.frozensets(TEXT, max_size=3),
    some.sampled_from(Tabs),
    some.none(),  # of the built-in one alone, which is not kept
)
SUBMISSIONS = some.builds(
    Submission, TEXT, TEXT, NAME, NAME, BYTES, some.integers(-(2**31), 2**31), some.none(), OPTIONS
)


@some.composite
def tasks(draw):
    """A task with anything in its fields, in no state that makes sense."""
    submission = draw(SUBMISSIONS)
    task = Task("tsk_1", draw(COUNT), Agent(submission.agent_id, 1), submission, draw(TIME), None, TaskState.QUEUED)
    task.state = draw(some.sampled_from(TaskState))
    for name in ("deadline", "deadline_secs", "started_at", "completed_at"):
        setattr(task, name, draw(AT))
    task.queued_at = draw(TIME)
    task.position, task.token, task.deliveries = draw(COUNT), 1 + draw(COUNT), draw(COUNT)
    task.result, task.progress, task.error = draw(BYTES), draw(BYTES), draw(NAME)
    task.host_id, task.history, task.expired = draw(NAME), draw(HISTORIES), draw(some.booleans())
    return task


@given(tasks())
def test_a_task(task):
    record, state = decode_task(encode_task(task, 0.0)), decode_state(encode_state(task, 0.0))
    again = to_task(task.seq, record, state, task.agent)
    for name in TASK_FIELDS:
        if name not in ("retained", "lane", "lease"):
            assert getattr(again, name) == getattr(task, name), name


@given(tasks(), TIME, TIME, AT, COUNT, some.none() | some.text(max_size=128))
def test_a_lease(task, claimed_at, secs, started_at, token, claim_id):
    lease = Lease(task, Host("host", 1, 0.0), token, claimed_at, secs, claim_id)
    lease.started_at = started_at
    task.lease = lease
    held = decode_state(encode_state(task, 0.0)).held
    assert (held.host_id, held.claimed_at, held.secs, held.started_at) == ("host", claimed_at, secs, started_at)
    assert (held.is_streamed, held.claim_id) == (False, claim_id)
    its = decode_stopping(encode_stopping(lease))
    assert (its.task_id, its.task_number, its.agent_id, its.target) == (task.id, task.seq, task.agent.id, "door")
    assert (its.host_id, its.secs, its.is_streamed) == ("host", secs, False)


@pytest.mark.parametrize("deadline_secs", [None, 5.0])
def test_only_a_default_deadline_is_stored_without_the_time_for_which_it_stood_still(deadline_secs):
    task = Task("tsk_1", 1, Agent("a", 1), Submission("a", "x"), 0.0, None, TaskState.QUEUED)
    task.deadline, task.deadline_secs = 100.0, deadline_secs
    expected = 60.0 if deadline_secs is None else 100.0
    assert decode_task(encode_task(task, 40.0)).deadline == expected
    assert decode_state(encode_state(task, 40.0)).deadline == expected


@given(PROFILES, some.lists(some.tuples(TEXT, TEXT), max_size=3).map(tuple), NAME, AT, some.none() | COUNT)
def test_a_host(profile, labels, instance, drain_until, slots):
    host = Host("host", 5, 7.0)
    host.profile, host.labels, host.instance, host.slots = profile, labels, instance, slots
    host.draining, host.drain_until = drain_until is not None, drain_until
    its = decode_host(encode_host(host))
    found = (
        its.display_name,
        to_profile(its.profile),
        its.slots,
        its.labels,
        False,
        its.draining,
        its.drain_until,
        its.instance,
    )
    assert (its.id, its.registered_at, found) == ("host", 7.0, host.kept())


def test_figures():
    figures = AgentFigures("name", 3)
    figures.submitted, figures.completed, figures.failed = 1, 2, 3
    figures.cancelled, figures.rejected, figures.tokens_used = 4, 5, 6
    its = decode_agent(encode_agent(figures, 99))
    found = (its.submitted, its.completed, its.failed, its.cancelled, its.rejected, its.tokens_used)
    assert (its.name, its.tie_break, found) == ("name", 99, (1, 2, 3, 4, 5, 6))


@given(
    some.one_of(some.builds(Cron, TEXT, TEXT), some.builds(Every, TEXT, TIME), some.builds(Once, TIME)),
    SUBMISSIONS,
    some.sampled_from(Overlap),
    some.sampled_from(CatchUp),
    AT,
    NAME,
)
def test_a_schedule(cadence, task, overlap, catch_up, at, name):
    spec = ScheduleSpec(cadence, "Europe/Berlin", task, at, name, overlap, catch_up, 100)
    schedule = Schedule("sch_1", spec, 1.0, 2.0, at, at is None)
    schedule.number, schedule.updated_at, schedule.processed_times = 4, 5.0, (TimeRange(1.0, 2.0), TimeRange(3.0, inf))
    schedule.resumed_at, schedule.after_pause = at, catch_up
    schedule.last_fired_at, schedule.last_task_id = at, name
    again = to_schedule(decode_schedule(encode_schedule(schedule)), 4)
    for field in names(Schedule):
        assert getattr(again, field) == getattr(schedule, field), field


@given(some.sampled_from(TriggerState), AT, NAME, some.booleans())
def test_a_trigger(state, at, name, by_call):
    schedule = Schedule("sch_1", ScheduleSpec(Once(1.0), "", Submission("", "")), 0.0, 0.0, None, False)
    trigger = Trigger("trg_1", 8, schedule, 5.0, "key", "trace", by_call)
    trigger.state, trigger.fired_at, trigger.ended_at, trigger.task_id, trigger.reason = state, at, at, name, name
    again = to_trigger(decode_trigger(encode_trigger(trigger)), 8, schedule)
    for field in names(Trigger):
        assert getattr(again, field) == getattr(trigger, field), field
