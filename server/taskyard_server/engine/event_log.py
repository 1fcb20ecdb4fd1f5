"""The event logs of all namespaces, which watchers read (docs/rules.md, Watching).

A log starts with the first watcher of its namespace. It joins the events that are retained (`recent_events.py`) with
the watchers that they are matched to (`event_feeds.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from taskyard_server.core.errors import BadRequest, CursorExpired, NotFound, NotOwner, Refusal, Unavailable
from taskyard_server.core.events import Event

from .event_feeds import EventFilter, Feed, Feeds, Watcher
from .recent_events import (
    BAD_CURSOR,
    LEFT_LOG,
    Bounds,
    CommitMark,
    EncodeEvent,
    RecentEvents,
    read_cursor,
)

SHUTDOWN: Final = "the server shuts down"
DELETED: Final = "the namespace was deleted"


class EventLog:
    """The log of one namespace: its recent `events`, and the feeds of those who watch them."""

    def __init__(
        self,
        namespace: str,
        encode: EncodeEvent,
        bounds: Bounds,
        clock: Callable[[], float],
        last_commit: Callable[[], CommitMark],
    ) -> None:
        self.events = RecentEvents(namespace, encode, bounds, last_commit)
        self.is_watched = False
        self._retain_secs = bounds.retain_secs
        self._feeds = Feeds()
        self._clock = clock
        self._unused_since = clock()

    def append(self, events: Sequence[Event]) -> None:
        """Append the events of one turn of the event loop, and wake the watchers of matching feeds."""
        number = self.events.last
        self.events.append(events)
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
        self.events.trim(events[-1].at)

    def watch(self, event_filter: EventFilter, cursor: str | None) -> Watcher:
        """A watcher from the cursor on, or from now on. Raises `BadRequest` or `CursorExpired`."""
        since: CommitMark | None = None
        try:
            position = self.events.last if cursor is None else self.events.position(cursor)
        except CursorExpired:
            assert cursor is not None
            # What changed since then is in the store, though what happened is not in the log.
            position, since = self.events.last, read_cursor(cursor).commit
            if not since.is_kept:
                raise
        self.is_watched = True
        feed = self._feeds.get(event_filter, lambda: Feed(self.events, event_filter, self._drop))
        return Watcher(feed, position, since)

    def is_unused(self, now: float) -> bool:
        """True if the log has had no watcher for so long that every cursor has expired."""
        return not self.is_watched and now - self._unused_since > self._retain_secs

    def close(self, reason: Refusal) -> None:
        """Mark the end of the log, and wake every watcher."""
        self.events.closed = reason
        for feed in self._feeds:
            for watcher in feed.watchers:
                watcher.wake()

    def _drop(self, feed: Feed) -> None:
        """Remove a feed whose last watcher has left."""
        self._feeds.remove(feed)
        self.is_watched = bool(self._feeds)
        self._unused_since = self._clock()


class EventLogs:
    """The logs of all namespaces: a listener of the engine. `encode` makes the message that watchers are sent.

    `last_commit` returns the last commit of a namespace that was published, and `knows_commit` whether a commit is one
    of the namespace that is there now: another one may have had its name before.
    """

    def __init__(
        self,
        encode: EncodeEvent,
        clock: Callable[[], float],
        last_commit: Callable[[str], CommitMark],
        knows_commit: Callable[[str, CommitMark], bool],
        bounds: Bounds | None = None,
    ) -> None:
        self._knows_commit = knows_commit
        self._last_commit = last_commit
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

        Where the cursor's position has left the log and there is a store, the watcher begins now and says `since` when
        its caller is to look up what changed. Raises `BadRequest` for an invalid cursor or one of another namespace,
        `CursorExpired` if its position has left the log without a store, and `Unavailable` once the logs are closed.
        """
        if self._closed:
            raise Unavailable(SHUTDOWN)
        read = None if cursor is None else read_cursor(cursor)
        if read is not None and read.namespace != namespace:
            raise BadRequest(BAD_CURSOR)
        if read is not None and read.commit.number > self._last_commit(namespace).number:
            # It comes from another store, or from one that was lost.
            raise CursorExpired(LEFT_LOG)
        log = self._logs.get(namespace)
        is_past = read is not None and (log is None or read.incarnation != log.events.incarnation)
        if read is not None and is_past and not self._knows_commit(namespace, read.commit):
            raise CursorExpired(LEFT_LOG)
        if log is None:
            if read is not None and not read.commit.is_kept:
                raise CursorExpired(LEFT_LOG)
            self._sweep()
            log = self._logs[namespace] = EventLog(
                namespace, self._encode, self._bounds, self._clock, partial(self._last_commit, namespace)
            )
        return log.watch(event_filter, cursor)

    def close(self) -> None:
        """Close every log. Watchers can still take the events that are there."""
        self._closed = True
        for log in self._logs.values():
            log.close(Unavailable(SHUTDOWN))

    def is_watched(self, namespace: str) -> bool:
        """True if anybody watches a namespace."""
        log = self._logs.get(namespace)
        return log is not None and log.is_watched

    def leave(self, namespace: str) -> None:
        """Close the log of a namespace that another replica serves from now on."""
        log = self._logs.pop(namespace, None)
        if log is not None:
            log.close(NotOwner())

    def deleted(self, namespace: str) -> None:
        """Close the log of a namespace that was deleted."""
        log = self._logs.pop(namespace, None)
        if log is not None:
            log.close(NotFound(DELETED))

    def _sweep(self) -> None:
        """Remove the unused logs of namespaces that have no more events."""
        now = self._clock()
        if now - self._swept_at > self._bounds.retain_secs:
            self._swept_at = now
            self._logs = {namespace: log for namespace, log in self._logs.items() if not log.is_unused(now)}
