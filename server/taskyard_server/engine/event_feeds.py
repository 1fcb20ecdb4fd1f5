"""Who watches which tasks: what one event costs is dict look-ups plus the watchers that want it.

Watchers of equal filters share a feed, which knows the matches near the end of the log; so fifty watchers of everything
cost one comparison an event, and their messages are joined once. A watcher itself is a position in the log and no more.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import CursorExpired
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.task import TERMINAL, Task, TaskState

if TYPE_CHECKING:
    from .event_log import EventLog

# Not `Final`, which would be compiled in: tests lower these.
MAX_SLICE_EVENTS = 100
MAX_SLICE_BYTES = 262_144
"""A slice that reached one of these is full; it holds one event at least."""
MAX_EVENTS_SCANNED = 1_000
"""So many events are looked at for one watcher that lags before others get their turn."""
KNOWN_MATCHES = 1_000
"""A feed knows at least so many of the last matches; watchers that are further behind look through the log."""
MAX_KNOWN_SLICES = 8
"""Watchers that keep up are all at the same position, or nearly so."""

LEFT_LOG: Final = "cursor: its position has left the log; begin anew with includeCurrent"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events are event_filter: those that match all that is given; None matches all.

    With `ends` a feed lists every event of the matching tasks, so that its watchers see which tasks have ended;
    `states` then selects only what they are sent.
    """

    task_ids: frozenset[str] | None = None
    batch_id: str | None = None
    agent_id: str | None = None
    target: str | None = None
    states: frozenset[TaskState] | None = None
    ends: bool = False

    def concerns(self, task: Task) -> bool:
        """Whether the task is one of those watched, in whatever state."""
        return (
            (self.task_ids is None or task.id in self.task_ids)
            and (self.batch_id is None or task.options.batch_id == self.batch_id)
            and (self.agent_id is None or task.agent_id == self.agent_id)
            and (self.target is None or task.options.target == self.target)
        )

    @property
    def is_broad(self) -> bool:
        """Whether tasks of every kind may match."""
        return all(given is None for given in (self.task_ids, self.batch_id, self.agent_id, self.target))

    def allows(self, state: TaskState) -> bool:
        """Whether an event that leaves a task in this state is sent."""
        return self.states is None or state in self.states

    def lists(self, event: Event) -> bool:
        """Whether the event belongs into the feed of this filter."""
        return (self.ends or self.allows(event.state)) and self.concerns(event.task)


@dataclass(frozen=True, slots=True)
class Slice:
    """Some events of a feed in order: all it lists, those to send, encoded; `end` is the position just after them."""

    listed: list[Event]
    encoded: bytes
    end: int


class Feed:
    """The matches of one filter. It knows all after the position `known_from`, which are `matches`."""

    def __init__(self, log: EventLog, event_filter: EventFilter) -> None:
        self.event_filter = event_filter
        self.watchers: set[Watcher] = set()
        self._log = log
        self._known_from = log.last
        self._matches: list[int] = []
        self._slices: dict[int, Slice] = {}
        self._sliced_at = 0

    def offer(self, number: int, event: Event) -> bool:
        """An event was appended to the log under this number; whether it matches."""
        if not self.event_filter.lists(event):
            return False
        if len(self._matches) == 2 * KNOWN_MATCHES:
            self._known_from = self._matches[KNOWN_MATCHES - 1]
            del self._matches[:KNOWN_MATCHES]
        self._matches.append(number)
        return True

    def is_ahead_of(self, position: int) -> bool:
        """Whether a watcher at this position has something to take, or to look through."""
        return position < self._known_from or bool(self._matches and self._matches[-1] > position)

    def after(self, position: int) -> Slice:
        """What comes after a position, joined once for all watchers that are there; raises `CursorExpired`."""
        if self._sliced_at != self._log.last or len(self._slices) == MAX_KNOWN_SLICES:
            self._slices.clear()
            self._sliced_at = self._log.last
        found = self._slices.get(position)
        if found is None:
            found = self._slices[position] = self._cut(position)
        return found

    def _cut(self, position: int) -> Slice:
        log = self._log
        if position < self._known_from:
            end = min(position + MAX_EVENTS_SCANNED, log.last)
            numbers = self._looked_through(position, end)
        else:
            begin, end = bisect_right(self._matches, position), log.last
            numbers = self._matches[begin : begin + MAX_SLICE_EVENTS + 1]
            if numbers and numbers[0] < log.first:
                raise CursorExpired(LEFT_LOG)
        listed: list[Event] = []
        parts: list[bytes] = []
        size = 0
        for number in numbers:
            if len(listed) == MAX_SLICE_EVENTS or size >= MAX_SLICE_BYTES:
                end = number - 1
                break
            event = log.event(number)
            listed.append(event)
            if self.event_filter.allows(event.state):
                parts.append(log.encoded(number))
                size += len(parts[-1])
        return Slice(listed, b"".join(parts), end)

    def _looked_through(self, position: int, end: int) -> list[int]:
        log, lists = self._log, self.event_filter.lists
        if position + 1 < log.first:
            raise CursorExpired(LEFT_LOG)
        matches: list[int] = []
        for number in range(position + 1, end + 1):
            if lists(log.event(number)):
                matches.append(number)
                if len(matches) > MAX_SLICE_EVENTS:
                    break
        return matches


class Watcher:
    """One reader of a feed. `position` is the number of the last event that it has seen, or that was not for it."""

    def __init__(self, log: EventLog, feed: Feed, position: int) -> None:
        self._log = log
        self._feed = feed
        self._position = position
        self._live_tasks: set[str] | None = None
        self._waiting: asyncio.Future[None] | None = None
        feed.watchers.add(self)

    def take(self) -> bytes:
        """The next events, encoded and joined; empty if there are none, or none in what was looked through so far.

        Raises `CursorExpired` once the next ones have left the log.
        """
        taken = self._feed.after(self._position)
        self._position = taken.end
        live = self._live_tasks
        if live is not None:
            for event in taken.listed:
                if event.state in TERMINAL or event.kind is EventKind.EVICTED:
                    live.discard(event.task.id)
                else:
                    live.add(event.task.id)
        return taken.encoded

    @property
    def cursor(self) -> str:
        """Where to resume after what was taken."""
        return self._log.cursor(self._position)

    @property
    def is_behind(self) -> bool:
        """Whether there is more to take now."""
        return self._feed.is_ahead_of(self._position)

    def end_after(self, live_tasks: set[str]) -> None:
        """Keep account of the watched tasks that have not ended; these have not yet. For a filter with `ends`."""
        self._live_tasks = live_tasks

    @property
    def tasks_ended(self) -> bool:
        """Whether all watched tasks had ended by the position that was reached; False unless that was asked for."""
        return self._live_tasks is not None and not self._live_tasks

    @property
    def is_closing(self) -> bool:
        """Whether the log takes no more events."""
        return self._log.closed

    async def wait(self, secs: float) -> bool:
        """Wait for something to take, or for the end of the log, at most so long; whether it came."""
        if not (self.is_behind or self.is_closing):
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            # A timer costs a fraction of what a task or a time-out around the wait does.
            timer = loop.call_later(secs, self.wake)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        return self.is_behind or self.is_closing

    def wake(self) -> None:
        """End its wait, if it waits."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def leave(self) -> None:
        """Watch no longer; safe to repeat."""
        self._log.leave(self, self._feed)


class Feeds:
    """The feeds of one log, each entered under the most selective thing that its filter names."""

    def __init__(self) -> None:
        self._feeds: dict[EventFilter, Feed] = {}
        self._everything: dict[Feed, None] = {}
        self._by_task: dict[str, dict[Feed, None]] = {}
        self._by_batch: dict[str, dict[Feed, None]] = {}
        self._by_agent: dict[str, dict[Feed, None]] = {}
        self._by_target: dict[str, dict[Feed, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._feeds)

    def __iter__(self) -> Iterator[Feed]:
        return iter(self._feeds.values())

    def get(self, event_filter: EventFilter, make: Callable[[], Feed]) -> Feed:
        """The feed of this filter, made if there is none."""
        feed = self._feeds.get(event_filter)
        if feed is None:
            feed = self._feeds[event_filter] = make()
            if event_filter.is_broad:
                self._everything[feed] = None
            for index, key in self._index_entries(event_filter):
                index.setdefault(key, {})[feed] = None
        return feed

    def remove(self, feed: Feed) -> None:
        """Forget a feed that nobody reads."""
        del self._feeds[feed.event_filter]
        self._everything.pop(feed, None)
        for index, key in self._index_entries(feed.event_filter):
            del index[key][feed]
            if not index[key]:
                del index[key]

    def of(self, task: Task) -> list[Feed]:
        """The feeds that may want an event of this task."""
        found = list(self._everything)
        if self._by_task:
            found += self._by_task.get(task.id, ())
        if self._by_agent:
            found += self._by_agent.get(task.agent_id, ())
        options = task.options
        if self._by_batch and options.batch_id is not None:
            found += self._by_batch.get(options.batch_id, ())
        if self._by_target and options.target is not None:
            found += self._by_target.get(options.target, ())
        return found

    def _index_entries(self, event_filter: EventFilter) -> Iterator[tuple[dict[str, dict[Feed, None]], str]]:
        """Where a filter is entered; nowhere if it names nothing."""
        if event_filter.task_ids is not None:
            for task_id in event_filter.task_ids:
                yield self._by_task, task_id
        elif event_filter.batch_id is not None:
            yield self._by_batch, event_filter.batch_id
        elif event_filter.agent_id is not None:
            yield self._by_agent, event_filter.agent_id
        elif event_filter.target is not None:
            yield self._by_target, event_filter.target
