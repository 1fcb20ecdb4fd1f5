"""Watchers of tasks, and the feeds that match events to them. An event costs a few dict lookups plus its watchers.

Watchers with equal filters share a feed, which knows the matches near the end of the log. Fifty watchers of everything
therefore cost one comparison per event, and their messages are joined once. A watcher is only a position in the log.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from taskyard_server.core.errors import CursorExpired, Refusal, Unavailable
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.names import Names
from taskyard_server.core.task import TERMINAL, Task, TaskState

from .fair_yield import SMALL
from .recent_events import LEFT_LOG, CommitMark, RecentEvents
from .shown_tasks import ShownTasks

# Not `Final`: mypyc would inline the values, and tests lower them.
MAX_SLICE_EVENTS = 100
MAX_SLICE_BYTES = 262_144
"""A slice is full once it reaches either of these. It holds at least one event."""
MAX_EVENTS_SCANNED_PER_TURN = 1_000
"""Maximum events scanned for one lagging watcher per turn of the event loop."""
MIN_KNOWN_MATCHES = 1_000
"""Minimum latest matches that a feed knows, once there are as many. Watchers further behind scan the log."""
MAX_CACHED_SLICES = 8
"""Maximum slices cached per feed. Watchers that keep up are at the same few positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events a watcher is sent: those that match every criterion that is set.

    With `ends`, a feed lists the events of matching tasks in all states, so that its watchers know which tasks have
    ended; `states` then only selects which of them are sent.

    `agents` are those whose tasks are there for the watcher, and `payloads` those whose payloads it is shown; None is
    all.
    """

    task_ids: frozenset[str] | None = None
    batch_id: str | None = None
    agent_id: str | None = None
    target: str | None = None
    states: frozenset[TaskState] | None = None
    ends: bool = False
    agents: Names | None = None
    payloads: Names | None = None

    def concerns(self, task: Task) -> bool:
        """True if the task is watched, in any state."""
        return (
            (self.agents is None or task.agent_id in self.agents)
            and (self.task_ids is None or task.id in self.task_ids)
            and (self.batch_id is None or task.options.batch_id == self.batch_id)
            and (self.agent_id is None or task.agent_id == self.agent_id)
            and (self.target is None or task.options.target == self.target)
        )

    @property
    def is_broad(self) -> bool:
        """True if the filter selects no tasks by id, batch, agent or target."""
        criteria = (self.task_ids, self.batch_id, self.agent_id, self.target, self.agents)
        return all(criterion is None for criterion in criteria)

    def is_bare(self, task: Task) -> bool:
        """True if the watcher is shown no payloads of this task."""
        return self.payloads is not None and task.agent_id not in self.payloads

    def allows(self, state: TaskState) -> bool:
        """True if events that leave a task in this state are sent."""
        return self.states is None or state in self.states

    def lists(self, event: Event) -> bool:
        """True if the event belongs to the feed of this filter."""
        return (self.ends or self.allows(event.state)) and self.concerns(event.task)


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive events of a feed: `listed` in order, with their numbers, those to send `encoded`, and their `end`."""

    numbers: list[int]
    listed: list[Event]
    encoded: bytes
    end: int


class Feed:
    """The matches of one filter, by event number, for positions from `_known_from` on.

    `drop` is called once the last watcher has left.
    """

    def __init__(self, events: RecentEvents, event_filter: EventFilter, drop: Callable[[Feed], None]) -> None:
        self.event_filter = event_filter
        self.events = events
        self.watchers: set[Watcher] = set()
        self._drop = drop
        self._known_from = events.last
        self._matches: list[int] = []
        self._slices: dict[int, Slice] = {}
        self._sliced_at = 0

    def offer(self, number: int, event: Event) -> bool:
        """Add an event that was appended to the log under this number. Returns whether it matches."""
        if not self.event_filter.lists(event):
            return False
        if len(self._matches) == 2 * MIN_KNOWN_MATCHES:
            self._known_from = self._matches[MIN_KNOWN_MATCHES - 1]
            del self._matches[:MIN_KNOWN_MATCHES]
        self._matches.append(number)
        return True

    def is_ahead_of(self, position: int) -> bool:
        """True if a watcher at this position has events to take or to scan."""
        return position < self._known_from or bool(self._matches and self._matches[-1] > position)

    def after(self, position: int) -> Slice:
        """The slice after a position, built once for all watchers at it. Raises `CursorExpired`."""
        if self._sliced_at != self.events.last or len(self._slices) == MAX_CACHED_SLICES:
            self._slices.clear()
            self._sliced_at = self.events.last
        cached = self._slices.get(position)
        if cached is None:
            cached = self._slices[position] = self._build_slice(position)
        return cached

    def leave(self, watcher: Watcher) -> None:
        """Remove a watcher. Safe to repeat."""
        if watcher in self.watchers:
            self.watchers.remove(watcher)
            if not self.watchers:
                self._drop(self)

    def _build_slice(self, position: int) -> Slice:
        events = self.events
        if position < self._known_from:
            end = min(position + MAX_EVENTS_SCANNED_PER_TURN, events.last)
            numbers = self._scan(position, end)
        else:
            begin, end = bisect_right(self._matches, position), events.last
            numbers = self._matches[begin : begin + MAX_SLICE_EVENTS + 1]
            if numbers and numbers[0] < events.first:
                raise CursorExpired(LEFT_LOG)
        listed: list[Event] = []
        parts: list[bytes] = []
        size = 0
        for number in numbers:
            if len(listed) == MAX_SLICE_EVENTS or size >= MAX_SLICE_BYTES:
                end = number - 1
                break
            event = events.event(number)
            listed.append(event)
            if self.event_filter.allows(event.state):
                parts.append(events.encoded(number, self.event_filter.is_bare(event.task)))
                size += len(parts[-1])
        return Slice(numbers[: len(listed)], listed, b"".join(parts), end)

    def _scan(self, position: int, end: int) -> list[int]:
        """The numbers of matching events after a position, up to `end` or a little more than a slice."""
        events, lists = self.events, self.event_filter.lists
        if position + 1 < events.first:
            raise CursorExpired(LEFT_LOG)
        matches: list[int] = []
        for number in range(position + 1, end + 1):
            if lists(events.event(number)):
                matches.append(number)
                if len(matches) > MAX_SLICE_EVENTS:
                    break
        return matches


class Watcher:
    """One reader of a feed. Its position is the number of the last event that it has taken or skipped.

    What changed after the commit `since`, if that is set, is not in the log, and comes before its first event. Tasks
    that are `shown` before it is at the end of the log include some of the events that it takes, which are left out.
    """

    def __init__(self, feed: Feed, position: int, since: CommitMark | None = None) -> None:
        self.since = since
        self._feed = feed
        self._position = position
        self._shown: ShownTasks | None = None
        self._live_tasks: set[str] | None = None
        self._wake_up: asyncio.Future[None] | None = None
        feed.watchers.add(self)

    def take(self) -> bytes:
        """The next events, encoded and joined; empty if there are none, or none in the part scanned by this call.

        Raises `CursorExpired` once the next events have left the log.
        """
        batch = self._feed.after(self._position)
        self._position = batch.end
        live_tasks = self._live_tasks
        if live_tasks is not None:
            for event in batch.listed:
                if event.state in TERMINAL or event.kind is EventKind.EVICTED:
                    live_tasks.discard(event.task.id)
                else:
                    live_tasks.add(event.task.id)
        return batch.encoded if self._shown is None else self._encode_unshown(self._shown, batch)

    @property
    def end(self) -> int:
        """The end of the log, as a position."""
        return self._feed.events.last

    def show(self) -> ShownTasks:
        """Show tasks before the next events. Returns where they are to be noted."""
        self._shown = shown = ShownTasks(self._feed.events)
        return shown

    def forget_shown(self) -> bool:
        """Forget what was shown once it includes nothing of what follows. Returns whether that is so."""
        if self._shown is not None and self._shown.are_passed_at(self._position):
            self._shown = None
        return self._shown is None

    @property
    def cursor(self) -> str:
        """The cursor to resume from after the events taken so far."""
        return self._feed.events.cursor(self._position)

    @property
    def is_one_of_many(self) -> bool:
        """True if so many watch the same that an event for all of them is large work."""
        return len(self._feed.watchers) > SMALL

    @property
    def is_behind(self) -> bool:
        """True if there are events to take or to scan."""
        return self._feed.is_ahead_of(self._position)

    def end_after(self, live_tasks: set[str]) -> None:
        """Track which watched tasks have not ended, starting with these. Requires a filter with `ends`."""
        self._live_tasks = live_tasks

    def _encode_unshown(self, shown: ShownTasks, batch: Slice) -> bytes:
        """The events of a slice that were not shown, encoded and joined."""
        feed, parts = self._feed, []
        for number, event in zip(batch.numbers, batch.listed, strict=True):
            if feed.event_filter.allows(event.state) and not shown.include(number, event):
                parts.append(feed.events.encoded(number, feed.event_filter.is_bare(event.task)))
        return b"".join(parts)

    @property
    def tasks_ended(self) -> bool:
        """True if all watched tasks had ended by the current position; always False without `end_after`."""
        return self._live_tasks is not None and not self._live_tasks

    @property
    def is_closing(self) -> bool:
        """True if the log is closed."""
        return self._feed.events.closed is not None

    @property
    def closing_reason(self) -> Refusal:
        """Why no more events follow."""
        return self._feed.events.closed or Unavailable("the watch has ended")

    async def wait(self, secs: float) -> bool:
        """Wait up to `secs` for events to take or for the log to close. Returns whether either happened."""
        if not (self.is_behind or self.is_closing):
            loop = asyncio.get_running_loop()
            self._wake_up = loop.create_future()
            # A timer is much cheaper than a task or `asyncio.timeout` around the wait.
            timer = loop.call_later(secs, self.wake)
            try:
                await self._wake_up
            finally:
                timer.cancel()
                self._wake_up = None
        return self.is_behind or self.is_closing

    def wake(self) -> None:
        """End the current `wait`, if any."""
        if self._wake_up is not None and not self._wake_up.done():
            self._wake_up.set_result(None)

    def leave(self) -> None:
        """Stop watching. Safe to repeat."""
        self._feed.leave(self)


class Feeds:
    """The feeds of one log, indexed by the most selective criterion of their filters.

    Beginnings of agents' names are looked up once for each length that any of them has.
    """

    def __init__(self) -> None:
        self._feeds: dict[EventFilter, Feed] = {}
        self._broad: dict[Feed, None] = {}
        self._by_task: dict[str, dict[Feed, None]] = {}
        self._by_batch: dict[str, dict[Feed, None]] = {}
        self._by_agent: dict[str, dict[Feed, None]] = {}
        self._by_target: dict[str, dict[Feed, None]] = {}
        self._by_prefix: dict[str, dict[Feed, None]] = {}
        self._prefix_lengths: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._feeds)

    def __iter__(self) -> Iterator[Feed]:
        return iter(self._feeds.values())

    def get(self, event_filter: EventFilter, make: Callable[[], Feed]) -> Feed:
        """The feed of this filter, created if there is none."""
        feed = self._feeds.get(event_filter)
        if feed is None:
            feed = self._feeds[event_filter] = make()
            if event_filter.is_broad:
                self._broad[feed] = None
            for index, key in self._index_entries(event_filter):
                index.setdefault(key, {})[feed] = None
            self._prefixes_changed(event_filter)
        return feed

    def remove(self, feed: Feed) -> None:
        """Remove a feed without watchers."""
        del self._feeds[feed.event_filter]
        self._broad.pop(feed, None)
        for index, key in self._index_entries(feed.event_filter):
            del index[key][feed]
            if not index[key]:
                del index[key]
        self._prefixes_changed(feed.event_filter)

    def of(self, task: Task) -> list[Feed]:
        """The feeds whose filters may match an event of this task."""
        feeds = list(self._broad)
        if self._by_task:
            feeds += self._by_task.get(task.id, ())
        if self._by_agent:
            feeds += self._by_agent.get(task.agent_id, ())
        for length in self._prefix_lengths:
            if length > len(task.agent_id):
                break
            feeds += self._by_prefix.get(task.agent_id[:length], ())
        options = task.options
        if self._by_batch and options.batch_id is not None:
            feeds += self._by_batch.get(options.batch_id, ())
        if self._by_target and options.target is not None:
            feeds += self._by_target.get(options.target, ())
        return feeds

    def _index_entries(self, event_filter: EventFilter) -> Iterator[tuple[dict[str, dict[Feed, None]], str]]:
        """The index and the keys under which a filter is entered; none for a broad filter."""
        if event_filter.task_ids is not None:
            for task_id in event_filter.task_ids:
                yield self._by_task, task_id
        elif event_filter.batch_id is not None:
            yield self._by_batch, event_filter.batch_id
        elif event_filter.agent_id is not None:
            yield self._by_agent, event_filter.agent_id
        elif event_filter.agents is not None:
            # An agent is found under one of them, so that its events are offered to the feed once.
            agents = event_filter.agents.disjoint()
            for agent_id in agents.exact:
                yield self._by_agent, agent_id
            for prefix in agents.prefixes:
                yield self._by_prefix, prefix
        elif event_filter.target is not None:
            yield self._by_target, event_filter.target

    def _prefixes_changed(self, event_filter: EventFilter) -> None:
        """Find again which lengths prefixes have, after a filter that may have some was added or removed."""
        if event_filter.agents is not None:
            self._prefix_lengths = sorted({len(prefix) for prefix in self._by_prefix})
