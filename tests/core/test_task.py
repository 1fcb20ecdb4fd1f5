"""A copy of a task or a trigger keeps every attribute that the record had."""

from copy import copy

import pytest

from .records import names
from .schedules.clockwork import Steady


@pytest.fixture(params=["task", "trigger"])
def record(request, clockwork):
    """A record with most of its attributes set."""
    trigger = clockwork.trigger(clockwork.create(Steady(1_000_000)), key="mine")
    task = clockwork.task(trigger)
    lease = clockwork.lease(trigger)
    clockwork.yard.start(lease)
    clockwork.yard.scheduler.reports.progress(clockwork.yard.now, lease.host.id, task.id, lease.token, b"half", 7)
    clockwork.yard.fail(lease)
    return task if request.param == "task" else trigger


def test_a_copy_has_every_attribute_of_its_original(record):
    kept = copy(record)
    # Only what is in the table has a place there.
    held = set(names(type(record))) - {"page"}
    assert len(held) >= 15
    assert {name: getattr(kept, name) for name in held} == {name: getattr(record, name) for name in held}


def test_a_copy_stays_as_it_was(record):
    kept = copy(record)
    state = record.state
    record.state = type(state).PENDING
    assert kept.state is state is not record.state
