"""The cursors of watches as callers get them: sealed where they must tell nothing of others' tasks.

A sealed cursor is that of a namespace and of the caller's scope. One that does not open here has left the log, as far
as its holder is concerned: the server may have a new key, or the caller other grants.
"""

from __future__ import annotations

from typing import Final

from taskyard.v1 import task_pb2 as pb
from taskyard_server.conversion.page_tokens import SEALED_MARK
from taskyard_server.conversion.wire import nested, tag
from taskyard_server.core.errors import CursorExpired
from taskyard_server.engine.event_feeds import Watcher
from taskyard_server.engine.recent_events import LEFT_LOG, read_cursor
from taskyard_server.interceptors.callers import Call

CURSOR: Final = tag(pb.WatchTasksResponse, "cursor")
MAX_REMEMBERED: Final = 256

SealedCursors = dict[tuple[bytes, str], bytes]
"""The fields with the last cursors that were sealed: watches of one scope are often at the same position."""


class WatchCursors:
    """The cursors of one watch. `sealed` is shared by all."""

    def __init__(self, call: Call, sealed: SealedCursors) -> None:
        self._seal = call.seal
        self._bound_to = b"" if call.seal is None else repr(("watch", call.namespace, call.access.scope)).encode()
        self._sealed = sealed

    def read(self, cursor: str) -> str | None:
        """The cursor of a log that a caller's cursor stands for; None without one.

        Raises `BadRequest` for what never was a cursor, and `CursorExpired`.
        """
        if not cursor:
            return None
        if self._seal is None:
            if cursor.startswith(SEALED_MARK):
                raise CursorExpired(LEFT_LOG)
            return cursor
        opened = self._seal.open(cursor, self._bound_to)
        if opened is None:
            if not cursor.startswith(SEALED_MARK):
                read_cursor(cursor)
            raise CursorExpired(LEFT_LOG)
        return opened

    def field(self, watcher: Watcher) -> bytes:
        """The encoded field with the cursor after the events that a watcher has taken."""
        cursor = watcher.cursor
        if self._seal is None:
            return nested(CURSOR, cursor.encode())
        key = (self._bound_to, cursor)
        field = self._sealed.get(key)
        if field is None:
            if len(self._sealed) == MAX_REMEMBERED:
                self._sealed.clear()
            field = self._sealed[key] = nested(CURSOR, self._seal.seal(cursor, self._bound_to).encode())
        return field
