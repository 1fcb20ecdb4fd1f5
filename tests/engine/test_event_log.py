"""The event log and its watchers: what a watcher is given, where it resumes, and what the log keeps."""

import asyncio
from collections import Counter
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard_server.core.agents import Agent
from taskyard_server.core.errors import BadRequest, CursorExpired, Unavailable
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.task import Submission, Task, TaskOptions, TaskState
from taskyard_server.engine import event_feeds as watchers
from taskyard_server.engine.event_feeds import EventFilter
from taskyard_server.engine.event_log import Bounds, EventLogs
from tests.core.records import values

NAMESPACE = "default"
EVERYTHING = EventFilter()
NEAR = {"MAX_SLICE_EVENTS": 3, "MAX_EVENTS_SCANNED_PER_TURN": 5, "MIN_KNOWN_MATCHES": 2, "MAX_CACHED_SLICES": 2}
"""Limits so low that a handful of events passes each of them."""


def task(task_id, agent="ann", batch=None, target=None, params=None, progress=None):
    asked = Submission(agent, "click", params=params, options=TaskOptions(batch_id=batch, target=target))
    task = Task(task_id, 1, Agent(agent, 1), asked, 0.0, None, TaskState.QUEUED)
    task.progress = progress
    return task


def event(of, state=TaskState.RUNNING, kind=EventKind.CHANGED, at=0.0):
    of.state = state
    return Event(at, of, kind, None)


class Yard:
    """Logs whose events are encoded as their numbers, with a clock that a test moves."""

    def __init__(self, **bounds):
        self.now = 0.0
        self.encodings = Counter()
        self.logs = EventLogs(self._encode, lambda: self.now, Bounds(**bounds))
        self._numbers = {}
        self._kept = []

    def _encode(self, of):
        self.encodings[self._numbers[id(of)]] += 1
        return b"%d " % self._numbers[id(of)]

    def happen(self, *happened, namespace=NAMESPACE):
        """Append events; each is known by the order in which it came."""
        for one in happened:
            one.at = self.now
            self._numbers[id(one)] = len(self._numbers)
            # An event that is gone may leave its address, its id here, to the next.
            self._kept.append(one)
        self.logs(namespace, happened)

    def many(self, count, of=None):
        for _ in range(count):
            self.happen(event(of or task("t")))

    def watch(self, wanted=EVERYTHING, cursor=None, namespace=NAMESPACE):
        return self.logs.watch(namespace, wanted, cursor)


def taken(watcher):
    """Everything that there is for a watcher now."""
    got = []
    while True:
        got += [int(number) for number in watcher.take().split()]
        if not watcher.is_behind:
            return got


def feeds_of(yard, namespace=NAMESPACE):
    return yard.logs._logs[namespace]._feeds


# What a watcher sees.

IDS = st.sampled_from(["t1", "t2", "t3"])
MAYBE = {"batch": st.sampled_from([None, "b1", "b2"]), "target": st.sampled_from([None, "x"])}
EVENTS = st.builds(
    lambda task_id, agent, state, **options: event(task(task_id, agent, **options), state),
    IDS,
    st.sampled_from(["ann", "bob"]),
    st.sampled_from([TaskState.QUEUED, TaskState.RUNNING, TaskState.DONE]),
    **MAYBE,
)
FILTERS = st.builds(
    EventFilter,
    task_ids=st.none() | st.frozensets(IDS, min_size=1),
    batch_id=st.sampled_from([None, None, "b1"]),
    agent_id=st.sampled_from([None, None, "ann"]),
    target=st.sampled_from([None, None, "x"]),
    states=st.sampled_from([None, None, frozenset({TaskState.DONE}), frozenset({TaskState.QUEUED, TaskState.RUNNING})]),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["happen", "elsewhere"]), st.lists(EVENTS, min_size=1, max_size=8))
    | st.tuples(st.sampled_from(["take", "cut"]), st.integers(0, 3)),
    max_size=30,
)


@given(FILTERS, STEPS)
@settings(deadline=None, max_examples=300)
def test_however_often_a_watch_is_cut_it_sees_exactly_what_matches(wanted, steps):
    with patch.multiple(watchers, **NEAR):
        yard, expected, seen = Yard(), [], []
        watchers_now = [yard.watch(wanted), yard.watch(wanted)]
        yard.watch(namespace="other")
        cursor = watchers_now[0].cursor
        for step, what in steps:
            if step == "happen":
                begin = len(yard._numbers)
                yard.happen(*what)
                expected += [begin + index for index, one in enumerate(what) if wanted.lists(one)]
            elif step == "elsewhere":
                yard.happen(*what, namespace="other")
            elif step == "take":
                # The other one lags; that changes nothing for this one.
                seen += [int(number) for number in watchers_now[0].take().split()]
                cursor = watchers_now[0].cursor
            else:
                watchers_now[0].leave()
                watchers_now[0] = yard.watch(wanted, cursor)
        assert seen + taken(watchers_now[0]) == expected
        assert taken(watchers_now[1]) == expected


def test_a_watch_from_now_sees_nothing_that_was_before():
    yard = Yard()
    yard.watch()
    yard.many(3)
    watcher = yard.watch()
    yard.many(1)
    assert taken(watcher) == [3]


def test_events_of_other_namespaces_never_appear():
    yard = Yard()
    here, there = yard.watch(), yard.watch(namespace="other")
    yard.happen(event(task("t")), namespace="other")
    yard.happen(event(task("t")))
    assert (taken(here), taken(there)) == ([1], [0])


def test_a_message_is_bounded_by_count_and_by_bytes():
    yard = Yard()
    watcher = yard.watch()
    yard.many(250)
    assert [len(watcher.take().split()) for _ in range(3)] == [100, 100, 50]
    other = yard.watch(cursor=yard.watch(EventFilter(agent_id="nobody")).cursor)
    with patch.object(watchers, "MAX_SLICE_BYTES", 10):
        yard.many(12)
        sizes = []
        while other.is_behind:
            sizes.append(len(other.take()))
    assert sizes == [12, 12, 12, 12], "each stops once it has 10 bytes or more"


async def test_a_lone_event_is_told_at_once():
    yard = Yard()
    watcher = yard.watch(EventFilter(task_ids=frozenset({"t"})))
    news = asyncio.ensure_future(watcher.wait(60))
    await asyncio.sleep(0)
    yard.happen(event(task("another")))
    await asyncio.sleep(0)
    assert not news.done()
    yard.happen(event(task("t")))
    assert await asyncio.wait_for(news, 5)
    assert taken(watcher) == [1]


async def test_without_news_a_wait_ends_after_its_time():
    assert not await Yard().watch().wait(0.01)


# When all watched tasks have ended.

PAIR = EventFilter(task_ids=frozenset({"t1", "t2"}), states=frozenset({TaskState.FAILED}), ends=True)


def test_tasks_have_ended_when_the_last_one_has_whatever_states_are_sent():
    yard = Yard()
    watcher = yard.watch(PAIR)
    watcher.end_after({"t1", "t2"})
    yard.happen(event(task("t1"), TaskState.DONE), event(task("t2"), TaskState.RUNNING))
    assert taken(watcher) == []
    assert not watcher.tasks_ended
    yard.happen(event(task("t2"), TaskState.FAILED))
    assert not watcher.tasks_ended, "its end was not taken yet"
    assert taken(watcher) == [2]
    assert watcher.tasks_ended


def test_a_failed_task_that_is_resumed_before_the_others_end_has_not_ended():
    yard = Yard()
    watcher = yard.watch(PAIR)
    watcher.end_after({"t1", "t2"})
    yard.happen(event(task("t1"), TaskState.FAILED), event(task("t1"), TaskState.QUEUED))
    yard.happen(event(task("t2"), TaskState.DONE))
    taken(watcher)
    assert not watcher.tasks_ended
    yard.happen(event(task("t1"), TaskState.DONE))
    taken(watcher)
    assert watcher.tasks_ended


def test_without_that_wish_a_watch_never_ends():
    yard = Yard()
    watcher = yard.watch(EventFilter(task_ids=frozenset({"t"})))
    yard.happen(event(task("t"), TaskState.DONE))
    taken(watcher)
    assert not watcher.tasks_ended


# Cursors.


@pytest.mark.parametrize("cursor", ["x", "=", "####", "é", "AAAA", "bm90IGEgY3Vyc29y", "A" * 5000])
def test_what_is_no_cursor_is_a_bad_request_that_names_the_field(cursor):
    yard = Yard()
    yard.watch()
    with pytest.raises(BadRequest, match=r"^cursor: "):
        yard.watch(cursor=cursor)


def test_a_cursor_ahead_of_the_log_is_none():
    yard = Yard()
    watcher = yard.watch()
    ahead = watcher._log.cursor(1)
    with pytest.raises(BadRequest, match=r"^cursor: "):
        yard.watch(cursor=ahead)
    yard.many(1)
    assert taken(yard.watch(cursor=ahead)) == []


def test_a_cursor_of_another_namespace_is_a_bad_request():
    yard = Yard()
    cursor = yard.watch(namespace="other").cursor
    with pytest.raises(BadRequest, match=r"^cursor: "):
        yard.watch(cursor=cursor)


def test_a_cursor_of_another_incarnation_has_expired():
    cursor = Yard().watch().cursor
    yard = Yard()
    with pytest.raises(CursorExpired):
        yard.watch(cursor=cursor)
    yard.watch()
    with pytest.raises(CursorExpired):
        yard.watch(cursor=cursor)


def test_cursors_are_safe_in_a_url():
    cursor = Yard().watch(namespace="a.b_c-D9").cursor
    assert cursor.isascii()
    assert cursor.replace("-", "").replace("_", "").isalnum()


# What the log keeps.


def test_a_cursor_expires_when_the_next_event_has_left_the_log_and_not_before():
    yard = Yard(max_events=64)
    watcher = yard.watch()
    cursors = []
    for _ in range(200):
        yard.many(1)
        taken(watcher)
        cursors.append(watcher.cursor)
    log = watcher._log
    assert log.last - log.first + 1 <= 64
    with pytest.raises(CursorExpired):
        yard.watch(cursor=cursors[log.first - 3])
    resumed = yard.watch(cursor=cursors[log.first - 2])
    assert taken(resumed) == list(range(log.first - 1, 200))


def test_a_watcher_that_is_too_slow_is_told_so_and_the_others_lose_nothing():
    yard = Yard(max_events=64)
    slow, quick = yard.watch(), yard.watch()
    seen = []
    for _ in range(100):
        yard.many(1)
        seen += taken(quick)
    assert seen == list(range(100))
    with pytest.raises(CursorExpired):
        slow.take()


def test_a_watcher_for_whom_nothing_happened_does_not_expire():
    yard = Yard(max_events=64)
    watcher = yard.watch(EventFilter(agent_id="bob"))
    yard.many(500)
    assert taken(watcher) == []
    yard.happen(event(task("t", "bob")))
    assert taken(watcher) == [500]


@pytest.mark.parametrize("kind", [EventKind.PROGRESSED, EventKind.EVICTED])
def test_what_only_the_log_keeps_alive_is_bounded_by_bytes(kind):
    yard = Yard(max_kept_bytes=1_000_000)
    watcher = yard.watch()
    payload = bytes(10_000)
    for number in range(300):
        yard.happen(event(task(f"t{number}", progress=payload, params=payload), kind=kind))
    log = watcher._log
    assert 60 < log.last - log.first + 1 <= 100
    assert len(log._events) == log.last - log.first + 1


def test_encoded_bytes_are_bounded_too():
    yard = Yard(max_encoded_bytes=400)
    watcher = yard.watch()
    yard.many(1000)
    taken(watcher)
    log = watcher._log
    assert sum(map(len, [*log._new_encoded.values(), *log._old_encoded.values()])) < 450


def test_the_last_minute_is_there_and_what_is_much_older_is_not():
    yard = Yard()
    watcher = yard.watch()
    for _ in range(1000):
        yard.now += 1
        yard.many(1)
    log = watcher._log
    assert log.event(log.first).at <= yard.now - 60
    assert log.event(log.first).at > yard.now - 400


def test_of_a_namespace_that_nobody_watched_nothing_is_kept():
    yard = Yard()
    yard.many(10)
    assert yard.logs._logs == {}


@pytest.mark.parametrize("is_busy", [True, False])
def test_a_log_that_nobody_used_for_long_is_forgotten(is_busy):
    yard = Yard()
    watcher = yard.watch()
    cursor = watcher.cursor
    watcher.leave()
    yard.now += 290
    yard.many(1)
    assert taken(yard.watch(cursor=cursor)) == [0]
    feeds = feeds_of(yard)
    next(iter(next(iter(feeds)).watchers)).leave()
    yard.now += 310
    if is_busy:
        yard.many(1)
    else:
        yard.watch(namespace="another")
    assert NAMESPACE not in yard.logs._logs
    with pytest.raises(CursorExpired):
        yard.watch(cursor=cursor)


# What it costs.


def test_an_event_is_encoded_once_for_all_and_never_for_nobody():
    yard = Yard()
    first = [yard.watch() for _ in range(20)] + [yard.watch(EventFilter(agent_id="ann")) for _ in range(20)]
    yard.happen(*(event(task("t", agent)) for agent in ("ann", "bob", "ann")))
    assert not yard.encodings
    for watcher in first:
        taken(watcher)
    assert yard.encodings == {0: 1, 1: 1, 2: 1}


def test_an_event_meets_only_the_feeds_that_may_want_it():
    yard = Yard()
    for number in range(1000):
        yard.watch(EventFilter(task_ids=frozenset({f"t{number}"}), agent_id="ann"))
        yard.watch(EventFilter(batch_id=f"b{number}", agent_id="ann"))
        yard.watch(EventFilter(agent_id=f"a{number}", target="x"))
        yard.watch(EventFilter(target=f"x{number}"))
    feeds = feeds_of(yard)
    assert feeds.of(task("none", "ann")) == []
    assert len(feeds.of(task("t5"))) == 1
    assert len(feeds.of(task("t7", "a7", batch="b7", target="x7"))) == 4
    yard.watch()
    assert len(feeds.of(task("none"))) == 1


def test_watchers_that_leave_leave_nothing_behind():
    yard = Yard()
    filters = [
        EVERYTHING,
        EventFilter(task_ids=frozenset({"t1", "t2"})),
        EventFilter(batch_id="b"),
        EventFilter(agent_id="ann"),
        EventFilter(target="x", states=frozenset({TaskState.DONE})),
    ]
    there = [yard.watch(wanted) for wanted in filters * 2]
    yard.many(3)
    for watcher in there:
        watcher.leave()
        watcher.leave()
    assert not any(values(feeds_of(yard)))


# The end.


async def test_when_the_logs_close_watchers_wake_and_take_what_is_there():
    yard = Yard()
    watcher = yard.watch()
    yard.many(2)
    assert taken(watcher) == [0, 1]
    news = asyncio.ensure_future(watcher.wait(60))
    await asyncio.sleep(0)
    yard.logs.close()
    assert await asyncio.wait_for(news, 5)
    assert watcher.is_closing
    with pytest.raises(Unavailable):
        yard.watch()
