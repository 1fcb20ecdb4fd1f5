"""The latest events of each namespace, which watchers read (DESIGN, Watching).

A log starts with the first watcher of its namespace and holds references only. An event is encoded when the first
watcher needs it, once for all watchers, by a function that the caller supplies. The log is bounded by count, bytes and
age; the oldest events are dropped first.
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

EncodeEvent: TypeAlias = Callable[[Event], bytes]

EVENT_MEMORY_BYTES: Final = 250
TASK_MEMORY_BYTES: Final = 700
"""Estimated memory of an event and of a task, without payloads."""
CURSOR: Final = re.compile(r"([0-9a-f]{16})\.(0|[1-9][0-9]{0,15})\.([A-Za-z0-9._-]{1,63})")
BAD_CURSOR: Final = "cursor: is not a cursor of a watch of this namespace"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a log keeps. Events older than `keep_secs` are dropped, and so is a log that is unused for as long."""

    max_events: int = 100_000
    max_kept_bytes: int = 48 * 1024 * 1024
    max_encoded_bytes: int = 16 * 1024 * 1024
    keep_secs: float = 300.0


class EventLog:
    """The events of one namespace, numbered from 1 without gaps. The log holds numbers `first` to `last`."""

    def __init__(self, namespace: str, encode: EncodeEvent, bounds: Bounds, clock: Callable[[], float]) -> None:
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
        # A cache of encoded events in two generations: a full new generation replaces the old one.
        self._new_encoded: dict[int, bytes] = {}
        self._old_encoded: dict[int, bytes] = {}
        self._new_encoded_bytes = 0

    def append(self, events: Sequence[Event]) -> None:
        """Append the events of one turn of the event loop, and wake the watchers of matching feeds."""
        number = self.last
        self._events.extend(events)
        self.last += len(events)
        self._bytes += EVENT_MEMORY_BYTES * len(events)
        for event in events:
            kind = event.kind
            if kind is EventKind.PROGRESSED or kind is EventKind.EVICTED:
                self._bytes += _retained_bytes(event)
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
            self._bytes > self._bounds.max_kept_bytes
            or len(self._events) > self._bounds.max_events
            or now - self._events[0].at > self._bounds.keep_secs * 9 / 8
        ):
            self._trim(now)

    def event(self, number: int) -> Event:
        """The event of this number, which the log must hold."""
        return self._events[number - self.first]

    def encoded(self, number: int) -> bytes:
        """The event in the encoding that watchers are sent."""
        encoded = self._new_encoded.get(number)
        if encoded is None:
            encoded = self._old_encoded.get(number) or self._encode(self.event(number))
            if self._new_encoded_bytes > self._bounds.max_encoded_bytes // 2:
                self._old_encoded, self._new_encoded, self._new_encoded_bytes = self._new_encoded, {}, 0
            self._new_encoded[number] = encoded
            self._new_encoded_bytes += len(encoded)
        return encoded

    def watch(self, event_filter: EventFilter, cursor: str | None) -> Watcher:
        """A watcher from the cursor on, or from now on. Raises `BadRequest` or `CursorExpired`."""
        position = self.last if cursor is None else self._position(cursor)
        self.is_watched = True
        return Watcher(self, self._feeds.get(event_filter, lambda: Feed(self, event_filter)), position)

    def leave(self, watcher: Watcher, feed: Feed) -> None:
        """Remove a watcher, and its feed if it was the last one."""
        if watcher in feed.watchers:
            feed.watchers.remove(watcher)
            if not feed.watchers:
                self._feeds.remove(feed)
                self.is_watched = bool(self._feeds)
                self._unused_since = self._clock()

    def is_unused(self, now: float) -> bool:
        """Whether the log has had no watcher for so long that every cursor has expired."""
        return not self.is_watched and now - self._unused_since > self._bounds.keep_secs

    def cursor(self, position: int) -> str:
        """The cursor of a position."""
        return urlsafe_b64encode(f"{self._incarnation}.{position}.{self._namespace}".encode()).decode().rstrip("=")

    def close(self) -> None:
        """Mark the end of the log, and wake every watcher."""
        self.closed = True
        for feed in self._feeds:
            for watcher in feed.watchers:
                watcher.wake()

    def _position(self, cursor: str) -> int:
        incarnation, position, _ = read_cursor(cursor)
        if incarnation != self._incarnation or position + 1 < self.first:
            raise CursorExpired(LEFT_LOG)
        if position > self.last:
            raise BadRequest(BAD_CURSOR)
        return position

    def _trim(self, now: float) -> None:
        """Drop the oldest events until the log is a little below its bounds, since one drop costs as much as many."""
        bounds, events, min_time = self._bounds, self._events, now - self._bounds.keep_secs
        max_events = bounds.max_events - bounds.max_events // 64
        max_bytes = bounds.max_kept_bytes - bounds.max_kept_bytes // 64
        count = 0
        for event in events:
            if len(events) - count <= max_events and self._bytes <= max_bytes and event.at > min_time:
                break
            self._bytes -= EVENT_MEMORY_BYTES + _retained_bytes(event)
            count += 1
        del events[:count]
        self.first += count


class EventLogs:
    """The logs of all namespaces: a listener of the engine. `encode` makes the message that watchers are sent."""

    def __init__(self, encode: EncodeEvent, clock: Callable[[], float], bounds: Bounds | None = None) -> None:
        self._encode = encode
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._logs: dict[str, EventLog] = {}
        self._swept_at = clock()
        self._closed = False

    def __call__(self, namespace: str, events: Sequence[Event]) -> None:
        """Append the events of one turn of the event loop. Events of namespaces without a log are dropped."""
        log = self._logs.get(namespace)
        if log is not None:
            log.append(events)
            if log.is_unused(events[-1].at):
                del self._logs[namespace]

    def watch(self, namespace: str, event_filter: EventFilter, cursor: str | None = None) -> Watcher:
        """A watcher from the cursor on, or from now on.

        Raises `BadRequest` for an invalid cursor or one of another namespace, `CursorExpired` if its position has left
        the log, and `Unavailable` once the logs are closed.
        """
        if self._closed:
            raise Unavailable("the server shuts down")
        if cursor is not None and read_cursor(cursor)[2] != namespace:
            raise BadRequest(BAD_CURSOR)
        log = self._logs.get(namespace)
        if log is None:
            if cursor is not None:
                raise CursorExpired(LEFT_LOG)
            self._sweep()
            log = self._logs[namespace] = EventLog(namespace, self._encode, self._bounds, self._clock)
        return log.watch(event_filter, cursor)

    def close(self) -> None:
        """Close every log. Watchers can still take the events that are there."""
        self._closed = True
        for log in self._logs.values():
            log.close()

    def _sweep(self) -> None:
        """Remove the unused logs of namespaces that have no more events."""
        now = self._clock()
        if now - self._swept_at > self._bounds.keep_secs:
            self._swept_at = now
            self._logs = {namespace: log for namespace, log in self._logs.items() if not log.is_unused(now)}


def read_cursor(cursor: str) -> tuple[str, int, str]:
    """The incarnation of the log, the position and the namespace in a cursor. Raises `BadRequest`."""
    try:
        text = b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True).decode("ascii")
    except (NotBase64, ValueError):
        raise BadRequest(BAD_CURSOR) from None
    match = CURSOR.fullmatch(text)
    if match is None:
        raise BadRequest(BAD_CURSOR)
    return match[1], int(match[2]), match[3]


def _retained_bytes(event: Event) -> int:
    """Memory that only the log keeps alive: replaced progress, and tasks that are no longer retained."""
    if event.kind is EventKind.PROGRESSED:
        return len(event.progress or b"")
    if event.kind is EventKind.EVICTED:
        return TASK_MEMORY_BYTES + len(event.task.params or b"") + len(event.task.result or b"")
    return 0
