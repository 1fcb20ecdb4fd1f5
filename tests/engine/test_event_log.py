"""The event log and its watchers: which events a watcher gets, where it resumes, and what the log keeps."""

import asyncio
from collections import Counter
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_server.core.agents import Agent
from taskyard_server.core.errors import BadRequest, CursorExpired, Unavailable
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.names import names
from taskyard_server.core.task import Submission, Task, TaskState
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine import event_feeds
from taskyard_server.engine.event_feeds import EventFilter
from taskyard_server.engine.event_log import EventLogs
from taskyard_server.engine.recent_events import NO_COMMIT, Bounds
from tests.cases import every_case
from tests.core.records import values

NAMESPACE = "default"
EVERYTHING = EventFilter()
LOW_LIMITS = {"MAX_SLICE_EVENTS": 3, "MAX_EVENTS_SCANNED_PER_TURN": 5, "MIN_KNOWN_MATCHES": 2, "MAX_CACHED_SLICES": 2}
"""Limits low enough to be exceeded by a handful of events."""


def make_task(task_id, agent="ann", batch=None, target=None, params=None, progress=None):
    made = Submission(agent, "click", params=params, options=TaskOptions(batch_id=batch, target=target))
    task = Task(task_id, 1, Agent(agent, 1), made, 0.0, None, TaskState.QUEUED)
    task.progress = progress
    return task


def make_event(task, state=TaskState.RUNNING, kind=EventKind.CHANGED, at=0.0):
    task.state = state
    return Event(at, task, kind, None)


class Logs:
    """Event logs whose events are encoded as their numbers, with a clock that a test controls."""

    def __init__(self, **bounds):
        self.now = 0.0
        self.encodings, self.bare_encodings = Counter(), Counter()
        no_commits = (lambda _: NO_COMMIT, lambda *_: True)
        self.event_logs = EventLogs(self._encode, lambda: self.now, *no_commits, Bounds(**bounds))
        self._numbers, self._kept = {}, []

    def _encode(self, event, bare):
        encodings = self.bare_encodings if bare else self.encodings
        encodings[self._numbers[id(event)]] += 1
        return b"%d " % self._numbers[id(event)]

    def append(self, *events, namespace=NAMESPACE):
        """Append events, numbered in the order of their arrival."""
        for event in events:
            event.at = self.now
            self._numbers[id(event)] = len(self._numbers)
            # Keep every event alive, so that no two have the same id.
            self._kept.append(event)
        self.event_logs(namespace, events)

    def append_many(self, count):
        for _ in range(count):
            self.append(make_event(make_task("t")))

    def watch(self, event_filter=EVERYTHING, cursor=None, namespace=NAMESPACE):
        return self.event_logs.watch(namespace, event_filter, cursor)


def take_all(watcher):
    """The numbers of all events that a watcher can take now."""
    numbers = []
    while True:
        numbers += [int(number) for number in watcher.take().split()]
        if not watcher.is_behind:
            return numbers


def feeds_of(logs, namespace=NAMESPACE):
    return logs.event_logs._logs[namespace]._feeds


# Events that a watcher gets

IDS = st.sampled_from(["t1", "t2", "t3"])
OPTIONAL_FIELDS = {"batch": st.sampled_from([None, "b1", "b2"]), "target": st.sampled_from([None, "x"])}
EVENTS = st.builds(
    lambda task_id, agent, state, **options: make_event(make_task(task_id, agent, **options), state),
    IDS,
    st.sampled_from(["ann", "bob"]),
    st.sampled_from([TaskState.QUEUED, TaskState.RUNNING, TaskState.DONE]),
    **OPTIONAL_FIELDS,
)
FILTERS = st.builds(
    EventFilter,
    task_ids=st.none() | st.frozensets(IDS, min_size=1),
    batch_id=st.sampled_from([None, None, "b1"]),
    agent_id=st.sampled_from([None, None, "ann"]),
    target=st.sampled_from([None, None, "x"]),
    states=st.sampled_from([None, None, frozenset({TaskState.DONE}), frozenset({TaskState.QUEUED, TaskState.RUNNING})]),
    agents=st.none() | st.lists(st.sampled_from(["ann", "bob", "a*", "an*", "b*", "annie*"])).map(names),
    payloads=st.sampled_from([None, None, names([]), names(["ann"])]),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "append elsewhere"]), st.lists(EVENTS, min_size=1, max_size=8))
    | st.tuples(st.sampled_from(["take", "resume"]), st.integers(0, 3)),
    max_size=30,
)


@given(FILTERS, STEPS)
def test_a_watch_gets_every_matching_event_once_however_often_it_is_resumed(event_filter, steps):
    with patch.multiple(event_feeds, **LOW_LIMITS):
        logs, expected, numbers = Logs(), [], []
        watchers = [logs.watch(event_filter), logs.watch(event_filter)]
        logs.watch(namespace="other")
        cursor = watchers[0].cursor
        for step, events in steps:
            if step == "append":
                begin = len(logs._numbers)
                logs.append(*events)
                expected += [begin + index for index, event in enumerate(events) if event_filter.lists(event)]
            elif step == "append elsewhere":
                logs.append(*events, namespace="other")
            elif step == "take":
                # The second watcher lags, which must not affect the first.
                numbers += [int(number) for number in watchers[0].take().split()]
                cursor = watchers[0].cursor
            else:
                watchers[0].leave()
                watchers[0] = logs.watch(event_filter, cursor)
        assert numbers + take_all(watchers[0]) == expected
        assert take_all(watchers[1]) == expected


def test_a_watch_without_a_cursor_gets_no_earlier_events():
    logs = Logs()
    logs.watch()
    logs.append_many(3)
    watcher = logs.watch()
    logs.append_many(1)
    assert take_all(watcher) == [3]


def test_events_of_other_namespaces_never_appear():
    logs = Logs()
    here, elsewhere = logs.watch(), logs.watch(namespace="other")
    logs.append(make_event(make_task("t")), namespace="other")
    logs.append(make_event(make_task("t")))
    assert (take_all(here), take_all(elsewhere)) == ([1], [0])


def test_a_message_is_bounded_by_count_and_by_bytes():
    logs = Logs()
    watcher = logs.watch()
    logs.append_many(250)
    assert [len(watcher.take().split()) for _ in range(3)] == [100, 100, 50]
    other = logs.watch(cursor=logs.watch(EventFilter(agent_id="nobody")).cursor)
    with patch.object(event_feeds, "MAX_SLICE_BYTES", 10):
        logs.append_many(12)
        sizes = []
        while other.is_behind:
            sizes.append(len(other.take()))
    assert sizes == [12, 12, 12, 12], "each stops once it has 10 bytes or more"


async def test_a_waiting_watcher_is_woken_by_the_first_matching_event():
    logs = Logs()
    watcher = logs.watch(EventFilter(task_ids=frozenset({"t"})))
    waiting = asyncio.ensure_future(watcher.wait(60))
    await asyncio.sleep(0)
    logs.append(make_event(make_task("another")))
    await asyncio.sleep(0)
    assert not waiting.done()
    logs.append(make_event(make_task("t")))
    assert await waiting
    assert take_all(watcher) == [1]


async def test_a_wait_without_events_ends_after_its_timeout():
    assert not await Logs().watch().wait(0.01)


# The end of all watched tasks

PAIR = EventFilter(task_ids=frozenset({"t1", "t2"}), states=frozenset({TaskState.FAILED}), ends=True)


def test_the_watched_tasks_have_ended_once_the_last_one_has_in_any_state():
    logs = Logs()
    watcher = logs.watch(PAIR)
    watcher.end_after({"t1", "t2"})
    logs.append(make_event(make_task("t1"), TaskState.DONE), make_event(make_task("t2"), TaskState.RUNNING))
    assert take_all(watcher) == []
    assert not watcher.tasks_ended
    logs.append(make_event(make_task("t2"), TaskState.FAILED))
    assert not watcher.tasks_ended, "its last event is not taken yet"
    assert take_all(watcher) == [2]
    assert watcher.tasks_ended


def test_a_failed_task_that_is_resumed_before_the_others_end_has_not_ended():
    logs = Logs()
    watcher = logs.watch(PAIR)
    watcher.end_after({"t1", "t2"})
    logs.append(make_event(make_task("t1"), TaskState.FAILED), make_event(make_task("t1"), TaskState.QUEUED))
    logs.append(make_event(make_task("t2"), TaskState.DONE))
    take_all(watcher)
    assert not watcher.tasks_ended
    logs.append(make_event(make_task("t1"), TaskState.DONE))
    take_all(watcher)
    assert watcher.tasks_ended


def test_a_filter_without_ends_never_reports_that_its_tasks_have_ended():
    logs = Logs()
    watcher = logs.watch(EventFilter(task_ids=frozenset({"t"})))
    logs.append(make_event(make_task("t"), TaskState.DONE))
    take_all(watcher)
    assert not watcher.tasks_ended


# Cursors


@every_case("cursor", ["x", "=", "####", "é", "AAAA", "bm90IGEgY3Vyc29y", "A" * 5000])
def test_an_invalid_cursor_is_a_bad_request_that_names_the_field(cursor):
    logs = Logs()
    logs.watch()
    with pytest.raises(BadRequest, match=r"^cursor: "):
        logs.watch(cursor=cursor)


def test_a_cursor_ahead_of_the_log_is_a_bad_request():
    logs = Logs()
    watcher = logs.watch()
    ahead = watcher._feed.events.cursor(1)
    with pytest.raises(BadRequest, match=r"^cursor: "):
        logs.watch(cursor=ahead)
    logs.append_many(1)
    assert take_all(logs.watch(cursor=ahead)) == []


def test_a_cursor_of_another_namespace_is_a_bad_request():
    logs = Logs()
    cursor = logs.watch(namespace="other").cursor
    with pytest.raises(BadRequest, match=r"^cursor: "):
        logs.watch(cursor=cursor)


def test_a_cursor_of_another_incarnation_has_expired():
    cursor = Logs().watch().cursor
    logs = Logs()
    with pytest.raises(CursorExpired):
        logs.watch(cursor=cursor)
    logs.watch()
    with pytest.raises(CursorExpired):
        logs.watch(cursor=cursor)


def test_cursors_are_safe_in_a_url():
    cursor = Logs().watch(namespace="a.b_c-D9").cursor
    assert cursor.isascii()
    assert cursor.replace("-", "").replace("_", "").isalnum()


# Bounds of the log


def test_a_cursor_expires_when_the_next_event_has_left_the_log_and_not_before():
    logs = Logs(max_events=64)
    watcher = logs.watch()
    cursors = []
    for _ in range(200):
        logs.append_many(1)
        take_all(watcher)
        cursors.append(watcher.cursor)
    log = watcher._feed.events
    assert log.last - log.first + 1 <= 64
    with pytest.raises(CursorExpired):
        logs.watch(cursor=cursors[log.first - 3])
    resumed = logs.watch(cursor=cursors[log.first - 2])
    assert take_all(resumed) == list(range(log.first - 1, 200))


def test_a_watcher_that_is_too_slow_expires_and_the_others_lose_no_event():
    logs = Logs(max_events=64)
    slow, fast = logs.watch(), logs.watch()
    numbers = []
    for _ in range(100):
        logs.append_many(1)
        numbers += take_all(fast)
    assert numbers == list(range(100))
    with pytest.raises(CursorExpired):
        slow.take()


def test_a_watcher_without_matching_events_does_not_expire():
    logs = Logs(max_events=64)
    watcher = logs.watch(EventFilter(agent_id="bob"))
    logs.append_many(500)
    assert take_all(watcher) == []
    logs.append(make_event(make_task("t", "bob")))
    assert take_all(watcher) == [500]


@pytest.mark.parametrize("kind", [EventKind.PROGRESSED, EventKind.EVICTED])
def test_memory_that_only_the_log_keeps_alive_is_bounded(kind):
    logs = Logs(max_retained_bytes=1_000_000)
    watcher = logs.watch()
    payload = bytes(10_000)
    for number in range(300):
        logs.append(make_event(make_task(f"t{number}", progress=payload, params=payload), kind=kind))
    log = watcher._feed.events
    assert 60 < log.last - log.first + 1 <= 100
    assert len(log._events) == log.last - log.first + 1


def test_the_cache_of_encoded_events_is_bounded():
    logs = Logs(max_encoded_bytes=400)
    watcher = logs.watch()
    logs.append_many(1000)
    take_all(watcher)
    log = watcher._feed.events
    assert sum(map(len, [*log._new_encoded.values(), *log._old_encoded.values()])) < 450


def test_the_log_keeps_the_last_minute_and_drops_much_older_events():
    logs = Logs()
    watcher = logs.watch()
    for _ in range(1000):
        logs.now += 1
        logs.append_many(1)
    log = watcher._feed.events
    assert log.event(log.first).at <= logs.now - 60
    assert log.event(log.first).at > logs.now - 400


def test_events_of_a_namespace_without_watchers_are_not_kept():
    logs = Logs()
    logs.append_many(10)
    assert logs.event_logs._logs == {}


@pytest.mark.parametrize("is_busy", [True, False])
def test_an_unused_log_is_dropped(is_busy):
    logs = Logs()
    watcher = logs.watch()
    cursor = watcher.cursor
    watcher.leave()
    logs.now += 290
    logs.append_many(1)
    assert take_all(logs.watch(cursor=cursor)) == [0]
    feeds = feeds_of(logs)
    next(iter(next(iter(feeds)).watchers)).leave()
    logs.now += 310
    if is_busy:
        logs.append_many(1)
    else:
        logs.watch(namespace="another")
    assert NAMESPACE not in logs.event_logs._logs
    with pytest.raises(CursorExpired):
        logs.watch(cursor=cursor)


# Cost


def test_an_event_is_encoded_once_for_all_watchers_and_only_when_it_is_taken():
    logs = Logs()
    watchers = [logs.watch() for _ in range(20)] + [logs.watch(EventFilter(agent_id="ann")) for _ in range(20)]
    logs.append(*(make_event(make_task("t", agent)) for agent in ("ann", "bob", "ann")))
    assert not logs.encodings
    for watcher in watchers:
        take_all(watcher)
    assert logs.encodings == {0: 1, 1: 1, 2: 1}


def test_an_event_is_encoded_once_more_for_those_who_are_shown_no_payloads_and_only_for_them():
    logs = Logs()
    watchers = [logs.watch(EventFilter(payloads=names(["ann"]))) for _ in range(20)]
    watchers += [logs.watch(EventFilter(payloads=names([]), agent_id="bob")) for _ in range(20)]
    logs.append(*(make_event(make_task("t", agent)) for agent in ("ann", "bob")))
    for watcher in watchers:
        take_all(watcher)
    assert (logs.encodings, logs.bare_encodings) == ({0: 1}, {1: 1})
    take_all(logs.watch(cursor=None))
    logs.watch()
    logs.append(make_event(make_task("t", "bob")))
    for watcher in watchers:
        take_all(watcher)
    assert 2 not in logs.encodings


def test_an_event_is_matched_only_against_feeds_that_may_match():
    logs = Logs()
    for number in range(1000):
        logs.watch(EventFilter(task_ids=frozenset({f"t{number}"}), agent_id="ann"))
        logs.watch(EventFilter(batch_id=f"b{number}", agent_id="ann"))
        logs.watch(EventFilter(agent_id=f"a{number}", target="x"))
        logs.watch(EventFilter(target=f"x{number}"))
        logs.watch(EventFilter(agents=names([f"a{number}", "team"]), target="y"))
        logs.watch(EventFilter(agents=names([f"p{number}-*"])))
    feeds = feeds_of(logs)
    assert feeds.of(make_task("none", "ann")) == []
    assert len(feeds.of(make_task("t5"))) == 1
    assert len(feeds.of(make_task("t7", "a7", batch="b7", target="x7"))) == 5
    assert len(feeds.of(make_task("none", "p7-1"))) == 1
    assert len(feeds.of(make_task("none", "p7"))) == 0
    assert len(feeds._prefix_lengths) == 3
    logs.watch()
    assert len(feeds.of(make_task("none"))) == 1


def test_watchers_that_leave_free_their_feeds():
    logs = Logs()
    filters = [
        EVERYTHING,
        EventFilter(task_ids=frozenset({"t1", "t2"})),
        EventFilter(batch_id="b"),
        EventFilter(agent_id="ann"),
        EventFilter(target="x", states=frozenset({TaskState.DONE})),
        EventFilter(agents=names(["ann", "b*", "bo*"])),
    ]
    watchers = [logs.watch(event_filter) for event_filter in filters * 2]
    logs.append_many(3)
    for watcher in watchers * 2:
        watcher.leave()
    assert not any(values(feeds_of(logs)))


# Shutdown


async def test_closing_the_logs_wakes_the_watchers_which_can_still_take_events():
    logs = Logs()
    watcher = logs.watch()
    logs.append_many(2)
    assert take_all(watcher) == [0, 1]
    waiting = asyncio.ensure_future(watcher.wait(60))
    await asyncio.sleep(0)
    logs.event_logs.close()
    assert await waiting
    assert watcher.is_closing
    with pytest.raises(Unavailable):
        logs.watch()
