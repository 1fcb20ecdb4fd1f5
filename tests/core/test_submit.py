"""Submitting: what an accepted task is, and its id (docs/rules.md, Submitting, Task fields)."""

import re

import pytest

from taskyard_server.core.errors import BadRequest, NotFound, QueueFull
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions
from tests.cases import every_case

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


def test_an_accepted_task_is_queued_with_the_fields_of_its_submission(yard):
    options = TaskOptions("https://example.com/hook", "red", frozenset({"gpu"}), (("team", "a"),), traceparent="00-1")
    submission = Submission("ann", "type", "tab", "e14", b"{}", -3, yard.now + 5, options)
    task = yard.scheduler.submit(yard.now, submission)
    assert task.state == "queued"
    assert (task.agent_id, task.action, task.tab_id, task.ref, task.params) == ("ann", "type", "tab", "e14", b"{}")
    assert (task.priority, task.deadline, task.created_at) == (-3, yard.now + 5, yard.now)
    assert task.options == options
    assert (task.started_at, task.completed_at, task.result, task.error, task.latency_ms) == (None,) * 5


def test_an_accepted_task_can_be_got_by_its_id(yard):
    task = yard.submit()
    assert yard.scheduler.get(task.id) is task


def test_params_are_kept_as_they_came_and_never_opened(yard):
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


def test_the_deadline_is_that_of_the_submission_or_the_default_of_the_limits(yard, make_yard):
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


@every_case("nonsense", ["", "tsk_", "tsk_a1b2c3d4", "x" * 10_000, "tsk_" + "g" * 32, "'; --", "é\0"])
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
