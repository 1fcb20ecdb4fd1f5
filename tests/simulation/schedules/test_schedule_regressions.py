"""Faults of schedules that only the random histories showed, each as the shortest history that shows it."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.schedules.schedule import Overlap, ScheduleSpec
from taskyard_server.core.task import Submission

from .cadences import Beats

NOW = 1_700_000_000.0
EVERY_TEN = ScheduleSpec(Beats(10.0, by_wall=False), "UTC", Submission("a", "x"))


@pytest.fixture
def core():
    """All that comes due is spread over two seconds."""
    limits = Limits(jitter_threshold=0, max_jitter_secs=2.0)
    return Scheduler(limits, partial(Random(1).getrandbits, 40))


def test_the_one_that_waits_for_a_younger_one_is_replaced_with_it(core):
    schedules = core.schedules
    schedules.create(NOW, "s", EVERY_TEN._replace(overlap=Overlap.WAIT))
    core.advance(NOW + 10.125)
    (first,) = schedules.triggers_before(None)
    assert first.fire_at is not None
    younger = schedules.trigger(NOW + 10.125, "s")
    core.advance(NOW + 13)
    assert schedules.get("s").waiting is first
    schedules.update(NOW + 13, "s", EVERY_TEN._replace(overlap=Overlap.REPLACE))
    last = schedules.trigger(NOW + 13, "s")
    assert [each.state for each in (first, younger, last)] == ["skipped", "failed", "executing"]
    assert schedules.get("s").open == 1


def test_of_a_batch_that_goes_on_in_one_tick_the_first_due_arrives_first(core):
    """Of one schedule with the overlap policy `skip` it is the one that runs."""
    schedules = core.schedules
    core.reconfigure(Limits(jitter_threshold=0, max_jitter_secs=0.001))
    schedules.create(NOW, "s", EVERY_TEN)
    while core.advance(NOW + 30.125):
        pass
    core.advance(NOW + 31)
    states = {trigger.due_at - NOW: trigger.state for trigger in schedules.triggers_before(None)}
    assert states == {10.0: "executing", 20.0: "skipped", 30.0: "skipped"}
