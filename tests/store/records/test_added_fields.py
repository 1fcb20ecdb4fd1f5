"""What came with format levels 2, 3 and 5: it comes back after a restart, and rows without it are those of level 1."""

import pytest
from msgspec import msgpack

from taskyard_server.cadence import parse_interval
from taskyard_server.core.history import Artifact, Bound, Park, RetryPolicy, Wait
from taskyard_server.core.limits import RESTART_GRACE_SECS
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.schedules.schedule import ScheduleSpec
from taskyard_server.core.task import NO_EXTRAS, NO_HISTORY, Submission
from taskyard_server.core.task_options import (
    AfterPolicy,
    OnConflict,
    OnParentEnd,
    OnTargetFailure,
    TaskExtras,
    TaskOptions,
    UniqueWhile,
)
from taskyard_server.store.records.tasks import (
    EXTRAS_OF_LEVEL_3,
    HISTORY_OF_LEVEL_1,
    OPTIONS_OF_LEVEL_1,
    encode_state,
    encode_task,
    kept_history,
    kept_options,
)
from tests.cases import every_case
from tests.store.kept_yard import KeptYard

FAR = 1e6
OPTIONS_PLACE = 11
HISTORY_PLACE = 8


@pytest.fixture
def yard() -> KeptYard:
    yard = KeptYard()
    yard.host()
    return yard


def report(yard, lease, kind, **fields):
    yard.scheduler.reports.take(yard.now, lease.host.id, Report(kind, lease.task.id, lease.token, **fields))


# Rows


def test_rows_without_it_are_those_that_level_1_reads(yard):
    task = yard.submit(labels=(("a", "b"),), retry=RetryPolicy(3))
    yard.fail(yard.claim())
    assert task.history is not NO_HISTORY
    assert len(msgpack.decode(encode_task(task, 0.0))[OPTIONS_PLACE]) == OPTIONS_OF_LEVEL_1
    assert len(msgpack.decode(encode_state(task, 0.0))[HISTORY_PLACE]) == HISTORY_OF_LEVEL_1


VALUES = {
    "run_timeout_secs": 1.0,
    "parent_id": "tsk_1",
    "input": b"input",
    "code": "busy",
    "traceback": "in crawl",
    "output": b"output",
    "bound": (Bound("once", b"fingerprint", 1.0),),
    "artifacts": (Artifact("a", "text/plain", 1, b"hash", 1, 1.0, 1, "a/1.0"),),
    "steps": 3,
    "step_bytes": 100,
    "park": Park(1.0, 1, (Wait("answer", "go", 2.0, (), b"question", b"default"),), ("time:a",), 3.0),
    "reason": "wrong site",
    "children": (7, 9),
}


EXTRAS = {
    "concurrency_keys": ("site:shop",),
    "after": ("tsk_1",),
    "after_indexes": (0,),
    "after_policy": AfterPolicy.ENDED,
    "unique_key": "shop",
    "unique_while": UniqueWhile.QUEUED,
    "on_conflict": OnConflict.REPLACE_QUEUED,
    "on_target_failure": OnTargetFailure.CONTINUE,
    "selector": "#btn",
    "inputs": (("page", "tsk_1"),),
    "input_indexes": (("page", 0),),
    "on_parent_end": OnParentEnd.KEEP,
    "child_name": "page-1",
}


@every_case("field", TaskOptions._fields[OPTIONS_OF_LEVEL_1:-1])
def test_options_with_any_of_it_are_written_up_to_that(field):
    options = TaskOptions(**{field: VALUES[field]})
    assert options.has_added_fields
    assert kept_options(options) == options[: TaskOptions._fields.index(field) + 1]


@every_case("field", TaskExtras._fields)
def test_options_with_extras_are_written_as_a_whole_but_for_what_a_release_does_not_know(field):
    options = TaskOptions(extras=TaskExtras(**{field: EXTRAS[field]}))
    assert not options.has_added_fields
    kept = kept_options(options)
    count = max(EXTRAS_OF_LEVEL_3, TaskExtras._fields.index(field) + 1)
    assert kept == (*options[:-1], options.extras[:count])


@every_case("field", NO_HISTORY._fields[HISTORY_OF_LEVEL_1:])
def test_a_history_with_any_of_it_is_written_up_to_that(field):
    history = NO_HISTORY._replace(**{field: VALUES[field]})
    assert kept_history(history) == history[: NO_HISTORY._fields.index(field) + 1]


# Restarts


def test_an_input_an_output_and_a_failure_are_there_again(yard):
    done = yard.submit(deadline=yard.now + FAR, input=b"input", run_timeout_secs=3.5, parent_id="tsk_1")
    report(yard, yard.claim(), ReportKind.COMPLETED, payload=b"1", output=b"output")
    waits = yard.submit(deadline=yard.now + FAR)
    told = {"error": "busy", "code": "busy", "traceback": "in crawl", "retry_after_secs": 60.0}
    report(yard, yard.claim(), ReportKind.FAILED, **told)
    yard.commit()
    scheduler = yard.restart(after=10)
    again = scheduler.get(done.id)
    assert (again.options.input, again.history.output, again.result) == (b"input", b"output", b"1")
    assert (again.options.run_timeout_secs, again.options.parent_id) == (3.5, "tsk_1")
    again = scheduler.get(waits.id)
    assert (again.state, again.history.code, again.history.traceback) == ("pending", "busy", "in crawl")
    assert again.history.not_before == waits.history.not_before


def test_a_reason_is_there_again(yard):
    task = yard.submit(deadline=yard.now + FAR)
    yard.claim()
    yard.scheduler.pause(yard.now, task.id, "wrong site")
    yard.commit()
    again = yard.restart(after=10).get(task.id)
    assert (again.state, again.history.reason) == ("paused", "wrong site")


def test_extras_are_there_again(yard):
    task = yard.submit(
        deadline=yard.now + FAR,
        target="shop",
        **EXTRAS | {"after": (), "after_indexes": (), "inputs": (), "input_indexes": ()},
    )
    plain = yard.submit(deadline=yard.now + FAR, target="shop")
    yard.commit()
    scheduler = yard.restart(after=10)
    again = scheduler.get(task.id).options.extras
    assert again == task.options.extras
    assert (again.unique_while, again.on_target_failure) == (UniqueWhile.QUEUED, OnTargetFailure.CONTINUE)
    assert scheduler.get(plain.id).options.extras is NO_EXTRAS


def test_the_template_of_a_schedule_keeps_it(yard):
    options = TaskOptions(input=b"input", run_timeout_secs=3.5, extras=TaskExtras(("site:shop",)))
    spec = ScheduleSpec(parse_interval("1h"), "UTC", Submission("ann", "act", options=options))
    yard.scheduler.schedules.create(yard.now, "s", spec)
    yard.commit()
    assert yard.restart().schedules.get("s").spec.task.options == options


def running(yard, secs):
    task = yard.submit(deadline=yard.now + FAR, run_timeout_secs=secs)
    lease = yard.claim(secs=3_600)
    yard.start(lease)
    yard.commit()
    return task.id


def test_a_run_timeout_goes_on_from_the_start_of_the_attempt(yard):
    task_id = running(yard, 100.0)
    scheduler = yard.restart(after=60)
    yard.pass_time(39)
    assert scheduler.get(task_id).state == "running"
    yard.pass_time(2)
    assert scheduler.get(task_id).history.code == "timed_out"


def test_one_that_is_over_waits_until_the_host_has_had_time_to_come_back(yard):
    task_id = running(yard, 10.0)
    scheduler = yard.restart(after=60)
    yard.pass_time(RESTART_GRACE_SECS - 1)
    assert scheduler.get(task_id).state == "running"
    yard.pass_time(2)
    assert scheduler.get(task_id).history.code == "timed_out"


def test_one_that_was_not_started_counts_from_its_start(yard):
    task = yard.submit(deadline=yard.now + FAR, run_timeout_secs=10.0)
    yard.claim(secs=3_600)
    yard.commit()
    scheduler = yard.restart(after=60)
    yard.pass_time(60)
    again = scheduler.get(task.id)
    yard.start(again.lease)
    yard.pass_time(9)
    assert again.state == "running"
    yard.pass_time(2)
    assert again.state == "failed"


def test_a_cancel_finds_descendants_also_through_what_had_ended(yard):
    parent = yard.submit(deadline=yard.now + FAR)
    yard.claim()
    child = yard.submit(deadline=yard.now + FAR, parent_id=parent.id)
    yard.complete(yard.claim())
    below = yard.submit(deadline=yard.now + FAR, parent_id=child.id)
    yard.commit()
    scheduler = yard.restart(after=10)
    _, count = scheduler.cancel_with_children(yard.now, parent.id)
    assert (count, scheduler.get(below.id).state) == (1, "cancelled")
    assert scheduler.life.children._below == {}
