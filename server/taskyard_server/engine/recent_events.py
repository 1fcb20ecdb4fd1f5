"""The latest events of one namespace by number, with the cursors that name a position among them.

An event is encoded when the first watcher needs it, once for all watchers, by a function that the caller supplies; once
more for those who are shown no payloads. The oldest events are dropped first: the bounds are a count, bytes and an age.
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Final, NamedTuple, TypeAlias

from taskyard_server.core.errors import BadRequest, CursorExpired, Refusal
from taskyard_server.core.events import Event, EventKind

EncodeEvent: TypeAlias = Callable[[Event, bool], bytes]
"""Encodes an event, or what is shown of it to watchers without payloads."""

EVENT_MEMORY_BYTES: Final = 250
TASK_MEMORY_BYTES: Final = 700
"""Estimated memory of an event and of a task, without payloads."""
CURSOR: Final = re.compile(
    r"([0-9a-f]{16})\.(0|[1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,15})\.([A-Za-z0-9._-]{1,63})"
)
CURSOR_OF_0_1: Final = re.compile(r"[0-9a-f]{16}\.(0|[1-9][0-9]{0,15})\.[A-Za-z0-9._-]{1,63}")
"""A cursor of a release before this one; its log is gone."""
BAD_CURSOR: Final = "cursor: is not a cursor of a watch of this namespace"
LEFT_LOG: Final = "cursor: its position has left the log; begin anew with includeCurrent"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a log. Events older than `retain_secs` are dropped, and so is a log that is unused for as long."""

    max_events: int = 100_000
    max_retained_bytes: int = 48 * 1024 * 1024
    max_encoded_bytes: int = 16 * 1024 * 1024
    retain_secs: float = 300.0


class CommitMark(NamedTuple):
    """A commit by which something was kept: its number, and its time in whole milliseconds. Zero without a store.

    Of a store that holds nothing yet the number is zero, too, but not the time.
    """

    number: int
    ms: int

    @property
    def is_kept(self) -> bool:
        """True if there is a store."""
        return self.ms > 0


class Cursor(NamedTuple):
    """The content of a cursor: a position in a log, and the last commit whose events all lie before it."""

    incarnation: str
    position: int
    commit: CommitMark
    namespace: str


NO_COMMIT: Final = CommitMark(0, 0)


class RecentEvents:
    """The events of one namespace, numbered from 1 without gaps; those from `first` to `last` are retained.

    `last_commit` returns the last commit that was published, and `closed` says why no more events follow.
    """

    def __init__(
        self,
        namespace: str,
        encode: EncodeEvent,
        bounds: Bounds,
        last_commit: Callable[[], CommitMark] = lambda: NO_COMMIT,
    ) -> None:
        self.first = 1
        self.last = 0
        self.closed: Refusal | None = None
        self._namespace = namespace
        self.incarnation = token_hex(8)
        self._encode = encode
        self._bounds = bounds
        self._last_commit = last_commit
        # Commits by the number of their last event, and before them the one that came before the log.
        self._latest = last_commit()
        self._commits: list[tuple[int, CommitMark]] = [(0, self._latest)]
        self._events: list[Event] = []
        self._bytes = 0
        # A cache of encoded events in two generations: a full new generation replaces the old one. Those without
        # payloads are under the negative numbers.
        self._new_encoded: dict[int, bytes] = {}
        self._old_encoded: dict[int, bytes] = {}
        self._new_encoded_bytes = 0

    def append(self, events: Sequence[Event]) -> None:
        """Add the events of one turn of the event loop. `trim` follows once they have been matched."""
        self._events.extend(events)
        self.last += len(events)
        commit = self._latest = self._last_commit()
        if commit.is_kept:
            # The turns of one commit come one after the other.
            if self._commits[-1][1].number == commit.number:
                self._commits.pop()
            self._commits.append((self.last, commit))
        self._bytes += EVENT_MEMORY_BYTES * len(events)
        for event in events:
            kind = event.kind
            if kind is EventKind.PROGRESSED or kind is EventKind.EVICTED:
                self._bytes += _retained_bytes(event)

    def event(self, number: int) -> Event:
        """The event of this number, which must be retained."""
        return self._events[number - self.first]

    def encoded(self, number: int, bare: bool = False) -> bytes:
        """The event in the encoding that watchers are sent; if `bare`, that without payloads."""
        key = -number if bare else number
        encoded = self._new_encoded.get(key)
        if encoded is None:
            encoded = self._old_encoded.get(key) or self._encode(self.event(number), bare)
            if self._new_encoded_bytes > self._bounds.max_encoded_bytes // 2:
                self._old_encoded, self._new_encoded, self._new_encoded_bytes = self._new_encoded, {}, 0
            self._new_encoded[key] = encoded
            self._new_encoded_bytes += len(encoded)
        return encoded

    def trim(self, now: float) -> None:
        """Drop the oldest events if a bound is exceeded."""
        if (
            self._bytes > self._bounds.max_retained_bytes
            or len(self._events) > self._bounds.max_events
            or now - self._events[0].at > self._bounds.retain_secs * 9 / 8
        ):
            self._trim(now)

    def cursor(self, position: int) -> str:
        """The cursor of a position."""
        number, ms = self._commit_before(position)
        text = f"{self.incarnation}.{position}.{number}.{ms}.{self._namespace}"
        return urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def position(self, cursor: str) -> int:
        """The position of a cursor. Raises `BadRequest`, or `CursorExpired` if the events after it are not retained."""
        incarnation, position, _, _ = read_cursor(cursor)
        if incarnation != self.incarnation or position + 1 < self.first:
            raise CursorExpired(LEFT_LOG)
        if position > self.last:
            raise BadRequest(BAD_CURSOR)
        return position

    @property
    def last_commit(self) -> int:
        """The number of the last commit that was published; zero without a store."""
        return self._last_commit().number

    def commit_of(self, number: int) -> int:
        """The number of the commit that an event was published with; zero without a store."""
        index = bisect_left(self._commits, number, key=_last_event)
        return self._commits[index][1].number if 0 < index < len(self._commits) else 0

    def _commit_before(self, position: int) -> CommitMark:
        """The last commit whose events all lie before a position."""
        if position == self.last:
            if self.closed is None:
                # What follows the end, at another replica, is none of this log.
                self._latest = self._last_commit()
            return self._latest
        index = bisect_right(self._commits, position, key=_last_event)
        return self._commits[index - 1][1] if index else NO_COMMIT

    def _trim(self, now: float) -> None:
        """Drop the oldest events until it is a little below its bounds, since one drop costs as much as many."""
        bounds, events, min_time = self._bounds, self._events, now - self._bounds.retain_secs
        max_events = bounds.max_events - bounds.max_events // 64
        max_bytes = bounds.max_retained_bytes - bounds.max_retained_bytes // 64
        count = 0
        for event in events:
            if len(events) - count <= max_events and self._bytes <= max_bytes and event.at > min_time:
                break
            self._bytes -= EVENT_MEMORY_BYTES + _retained_bytes(event)
            count += 1
        del events[:count]
        self.first += count
        # Where a log is trimmed its oldest positions cannot be resumed from any more, but by the commit before them.
        del self._commits[: max(0, bisect_right(self._commits, self.first - 1, key=_last_event) - 1)]


def _last_event(entry: tuple[int, CommitMark]) -> int:
    return entry[0]


def read_cursor(cursor: str) -> Cursor:
    """The content of a cursor. Raises `BadRequest`, or `CursorExpired` for one of an earlier release."""
    try:
        text = b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True).decode("ascii")
    except (NotBase64, ValueError):
        raise BadRequest(BAD_CURSOR) from None
    match = CURSOR.fullmatch(text)
    if match is None:
        raise CursorExpired(LEFT_LOG) if CURSOR_OF_0_1.fullmatch(text) else BadRequest(BAD_CURSOR)
    return Cursor(match[1], int(match[2]), CommitMark(int(match[3]), int(match[4])), match[5])


def _retained_bytes(event: Event) -> int:
    """Memory that only the log holds: replaced progress, and tasks that are no longer retained."""
    if event.kind is EventKind.PROGRESSED:
        return len(event.progress or b"")
    if event.kind is EventKind.EVICTED:
        task = event.task
        payloads = (task.params, task.result, task.options.input, task.history.output)
        return TASK_MEMORY_BYTES + sum([len(payload) for payload in payloads if payload is not None])
    return 0
