"""Timer queues: never early, at most an eighth of a second late; removed items take no memory."""

import gc
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard_server.core.timers import TICKS_PER_SECOND, TimerQueue, tick_of

SECONDS = st.floats(0, 4e9)
"""From the epoch to the year 2096."""


class Thing:
    """Something that comes due."""


@pytest.fixture
def timers():
    return TimerQueue()


def popped(timers):
    """All items in the order in which they come due."""
    things = []
    while (tick := timers.next_tick()) is not None:
        things.append(timers.pop(tick))
    return things


@settings(deadline=None)
@given(SECONDS)
def test_a_tick_comes_never_before_its_time_and_at_most_an_eighth_of_a_second_after(at):
    assert at < tick_of(at) / TICKS_PER_SECOND <= at + 0.125


@settings(deadline=None)
@given(SECONDS)
def test_an_item_comes_due_at_the_tick_of_its_time(at):
    timers = TimerQueue()
    timers.add(at, "it")
    assert timers.next_tick() == tick_of(at)


@settings(deadline=None)
@given(st.lists(SECONDS))
def test_items_come_due_in_the_order_of_their_ticks(times):
    timers = TimerQueue()
    for number, at in enumerate(times):
        timers.add(at, (at, number))
    ticks = [tick_of(at) for at, _ in popped(timers)]
    assert ticks == sorted(tick_of(at) for at in times)


def test_nothing_is_due_where_there_is_nothing(timers):
    assert timers.next_tick() is None


def test_an_item_that_was_removed_does_not_come_due(timers):
    timers.add(1, "gone")
    timers.add(1, "kept")
    timers.add(2, "later")
    timers.remove(1, "gone")
    assert popped(timers) == ["kept", "later"]


def test_the_last_item_of_a_tick_takes_the_tick_with_it(timers):
    timers.add(1, "gone")
    timers.add(2, "later")
    timers.remove(1, "gone")
    assert timers.next_tick() == tick_of(2)


def test_a_tick_whose_items_all_left_can_be_used_again(timers):
    timers.add(1, "first")
    timers.remove(1, "first")
    timers.add(1, "second")
    assert popped(timers) == ["second"]
    timers.add(1, "third")
    assert popped(timers) == ["third"]


def test_removing_what_was_popped_or_never_added_changes_nothing(timers):
    timers.add(1, "popped")
    timers.add(1, "kept")
    timers.add(2, "later")
    timers.remove(5, "never added")
    timers.remove(2, "never added")
    gone = timers.pop(tick_of(1))
    timers.remove(1, gone)
    assert sorted([gone, *popped(timers)]) == ["kept", "later", "popped"]


def test_an_item_may_be_there_at_two_times(timers):
    timers.add(1, "it")
    timers.add(2, "it")
    timers.remove(1, "it")
    assert popped(timers) == ["it"]


def test_a_removed_item_is_not_kept_in_memory(timers):
    thing = Thing()
    gone = weakref.ref(thing)
    timers.add(1, thing)
    timers.add(1, "another")
    timers.remove(1, thing)
    del thing
    gc.collect()
    assert gone() is None


def test_removed_items_leave_nothing_however_many_there_were(timers, object_count):
    """Each has a tick of its own, far in the future, as the deadlines of tasks that end at once."""
    timers.add(0, "kept")
    for number in range(10_000):
        timers.add(1_000 + number, "gone")
        timers.remove(1_000 + number, "gone")
    assert object_count(timers) < 200
    assert popped(timers) == ["kept"]


def test_what_is_kept_stays_in_order_while_much_is_removed(timers):
    kept = [number * 37 % 1_000 for number in range(0, 1_000, 10)]
    for number in range(1_000):
        timers.add(number, number)
    for number in set(range(1_000)) - set(kept):
        timers.remove(number, number)
    assert popped(timers) == sorted(kept)
