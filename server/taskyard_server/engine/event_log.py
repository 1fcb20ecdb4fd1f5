"""The last events of each namespace, from which watchers are served (DESIGN, Watching).

A log begins with the first watcher of its namespace and holds references only: nothing is encoded before somebody
wants it, and then once for all. It is bounded by count, bytes and age, oldest out first. What an event looks like when
it is sent is the caller's business.
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Final, TypeAlias

from taskyard_server.core.errors import BadRequest, CursorExpired, Unavailable
from taskyard_server.core.events import Event, EventKind

from .event_feeds import LEFT_LOG, EventFilter, Feed, Feeds, Watcher

Encode: TypeAlias = Callable[[Event], bytes]

EVENT_BYTES: Final = 250
TASK_BYTES: Final = 700
CURSOR: Final = re.compile(r"([0-9a-f]{16})\.(0|[1-9][0-9]{0,15})\.([A-Za-z0-9._-]{1,63})")
NO_CURSOR: Final = "cursor: is not a cursor of a watch of this namespace"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a log keeps. What is older than `keep_secs` goes first; a log unused for so long goes as a whole."""

    events: int = 100_000
    kept_bytes: int = 48 * 1024 * 1024
    encoded_bytes: int = 16 * 1024 * 1024
    keep_secs: float = 300.0


class EventLog:
    """The events of one namespace, numbered from 1 without gaps; `first` to `last` are there."""

    def __init__(self, namespace: str, encode: Encode, bounds: Bounds, clock: Callable[[], float]) -> None:
        self.first = 1
        self.last = 0
        self.closed = False
        self.is_watched = False
        self._namespace = namespace
        self._incarnation = token_hex(8)
        self._encode = encode
        self._bounds = bounds
        self._feeds = Feeds()
        self._clock = clock
        self._unused_since = clock()
        self._events: list[Event] = []
        self._bytes = 0
        # Bytes of events, by number. When the fresh ones are many they become the aged ones, which are dropped.
        self._fresh: dict[int, bytes] = {}
        self._aged: dict[int, bytes] = {}
        self._fresh_bytes = 0

    def append(self, events: Sequence[Event]) -> None:
        """Take the events of one turn of the loop, and wake those who want it."""
        number = self.last
        self._events.extend(events)
        self.last += len(events)
        self._bytes += EVENT_BYTES * len(events)
        for event in events:
            kind = event.kind
            if kind is EventKind.PROGRESSED or kind is EventKind.EVICTED:
                self._bytes += _kept_alive(event)
        if self.is_watched:
            matched: dict[Feed, None] = {}
            for event in events:
                number += 1
                for feed in self._feeds.of(event.task):
                    if feed.offer(number, event):
                        matched[feed] = None
            for feed in matched:
                for watcher in feed.watchers:
                    watcher.wake()
        now = events[-1].at
        if (
            self._bytes > self._bounds.kept_bytes
            or len(self._events) > self._bounds.events
            or now - self._events[0].at > self._bounds.keep_secs * 9 / 8
        ):
            self._trim(now)

    def event(self, number: int) -> Event:
        """The event of this number, which must be there."""
        return self._events[number - self.first]

    def encoded(self, number: int) -> bytes:
        """The event as it is sent."""
        found = self._fresh.get(number)
        if found is None:
            found = self._aged.get(number) or self._encode(self.event(number))
            if self._fresh_bytes > self._bounds.encoded_bytes // 2:
                self._aged, self._fresh, self._fresh_bytes = self._fresh, {}, 0
            self._fresh[number] = found
            self._fresh_bytes += len(found)
        return found

    def watch(self, event_filter: EventFilter, cursor: str | None) -> Watcher:
        """A watcher that goes on after the cursor, or from now; raises `BadRequest` or `CursorExpired`."""
        position = self.last if cursor is None else self._position(cursor)
        self.is_watched = True
        return Watcher(self, self._feeds.get(event_filter, lambda: Feed(self, event_filter)), position)

    def leave(self, watcher: Watcher, feed: Feed) -> None:
        """The watcher goes; nothing of it is left behind."""
        if watcher in feed.watchers:
            feed.watchers.remove(watcher)
            if not feed.watchers:
                self._feeds.remove(feed)
                self.is_watched = bool(self._feeds)
                self._unused_since = self._clock()

    def is_unused(self, now: float) -> bool:
        """Whether nobody has watched for so long that every cursor would have expired."""
        return not self.is_watched and now - self._unused_since > self._bounds.keep_secs

    def cursor(self, position: int) -> str:
        """The opaque name of a position."""
        return urlsafe_b64encode(f"{self._incarnation}.{position}.{self._namespace}".encode()).decode().rstrip("=")

    def close(self) -> None:
        """No more events come: whoever has taken all may go."""
        self.closed = True
        for feed in self._feeds:
            for watcher in feed.watchers:
                watcher.wake()

    def _position(self, cursor: str) -> int:
        incarnation, position, _ = read_cursor(cursor)
        if incarnation != self._incarnation or position + 1 < self.first:
            raise CursorExpired(LEFT_LOG)
        if position > self.last:
            raise BadRequest(NO_CURSOR)
        return position

    def _trim(self, now: float) -> None:
        """Drop what is over the bounds, and then a little more, since dropping costs as much for one as for many."""
        bounds, events, oldest = self._bounds, self._events, now - self._bounds.keep_secs
        most, most_bytes = bounds.events - bounds.events // 64, bounds.kept_bytes - bounds.kept_bytes // 64
        count = 0
        for event in events:
            if len(events) - count <= most and self._bytes <= most_bytes and event.at > oldest:
                break
            self._bytes -= EVENT_BYTES + _kept_alive(event)
            count += 1
        del events[:count]
        self.first += count


class EventLogs:
    """The logs of all namespaces: an engine listener. `encode` makes of an event what is sent."""

    def __init__(self, encode: Encode, clock: Callable[[], float], bounds: Bounds | None = None) -> None:
        self._encode = encode
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._logs: dict[str, EventLog] = {}
        self._swept_at = clock()
        self._closed = False

    def __call__(self, namespace: str, events: Sequence[Event]) -> None:
        """Take the events of one turn of the loop; of a namespace that nobody watches, nothing is kept."""
        log = self._logs.get(namespace)
        if log is not None:
            log.append(events)
            if log.is_unused(events[-1].at):
                del self._logs[namespace]

    def watch(self, namespace: str, event_filter: EventFilter, cursor: str | None = None) -> Watcher:
        """A watcher that goes on after the cursor, or from now.

        Raises `BadRequest` for what is no cursor of this namespace, `CursorExpired` for one whose position has left
        the log, and `Unavailable` once the logs are closed.
        """
        if self._closed:
            raise Unavailable("the server shuts down")
        if cursor is not None and read_cursor(cursor)[2] != namespace:
            raise BadRequest(NO_CURSOR)
        log = self._logs.get(namespace)
        if log is None:
            if cursor is not None:
                raise CursorExpired(LEFT_LOG)
            self._sweep()
            log = self._logs[namespace] = EventLog(namespace, self._encode, self._bounds, self._clock)
        return log.watch(event_filter, cursor)

    def close(self) -> None:
        """Let every watcher take what is there, and then go."""
        self._closed = True
        for log in self._logs.values():
            log.close()

    def _sweep(self) -> None:
        """Forget the unused logs of namespaces where nothing happens any more."""
        now = self._clock()
        if now - self._swept_at > self._bounds.keep_secs:
            self._swept_at = now
            self._logs = {namespace: log for namespace, log in self._logs.items() if not log.is_unused(now)}


def read_cursor(cursor: str) -> tuple[str, int, str]:
    """The incarnation, the position and the namespace that a cursor names; raises `BadRequest`."""
    try:
        text = b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True).decode("ascii")
    except (NotBase64, ValueError):
        raise BadRequest(NO_CURSOR) from None
    found = CURSOR.fullmatch(text)
    if found is None:
        raise BadRequest(NO_CURSOR)
    return found[1], int(found[2]), found[3]


def _kept_alive(event: Event) -> int:
    """Bytes that nobody but the log refers to: progress that was replaced, tasks that are not retained."""
    if event.kind is EventKind.PROGRESSED:
        return len(event.progress or b"")
    if event.kind is EventKind.EVICTED:
        return TASK_BYTES + len(event.task.params or b"") + len(event.task.result or b"")
    return 0
