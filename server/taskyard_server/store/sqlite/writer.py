"""The process that has a SQLite store's file open, and does one request after another (sqlite_pipe.py starts it).

A process of its own, since a thread starves beside a busy loop. Requests come on its standard input, answers go to its
standard output: each a length of four bytes, then a tuple in marshal's format. A request is (id, method, arguments), an
answer (id, outcome, value). The first answer, with the id 0, says whether the file could be opened.

It ends when its input does, after what it was sent: so it outlives a server that is killed for a moment, and writes
what that server believed to be under way. Signals do not end it.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import sqlite3
import sys
import time

from .file import Delayed, Unusable, in_words, open_yard, statements
from .rows import MOVED_IN_PAUSE, YardRows
from .upkeep import QUIET_SECS, Ballast, Log

TYPE_CHECKING = False  # typing would be a quarter of what the process takes to start.
if TYPE_CHECKING:
    from typing import Any, Final

DONE: Final = 0
DELAYED: Final = 1
REFUSED: Final = 2
UNUSABLE: Final = 3
"""Outcomes: it is done; later, perhaps; not this, though the store is well; never again."""

COPIED_PAGES: Final = 256
"""A copy is made in steps of this many pages; other requests are served between them."""
_READ: Final = 1 << 20


class Refused(Exception):
    """One request cannot be done; the store is well."""


class EndOfInput(Exception):
    """Nobody sends any more."""


class Pipe:
    """Frames from one end and to the other."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._bytes = bytearray()
        self._poll = select.poll()
        self._poll.register(source, select.POLLIN)

    def receive(self, secs: float | None) -> tuple[int, str, tuple[Any, ...]] | None:
        """The next request; None if none came within `secs`. Raises `EndOfInput`."""
        while True:
            if len(self._bytes) >= 4:
                end = 4 + int.from_bytes(self._bytes[:4], "little")
                if len(self._bytes) >= end:
                    with memoryview(self._bytes) as view, view[4:end] as frame:
                        request: tuple[int, str, tuple[Any, ...]] = marshal.loads(frame)
                    del self._bytes[:end]
                    return request
            if secs is not None and not self._poll.poll(secs * 1000):
                return None
            received = os.read(self._source, _READ)
            if not received:
                raise EndOfInput
            self._bytes += received

    def send(self, answer: tuple[int, int, Any]) -> None:
        """Answer. A server that is gone need not know."""
        body = marshal.dumps(answer, 2)
        frame = memoryview(len(body).to_bytes(4, "little") + body)
        try:
            while frame:
                frame = frame[os.write(self._sink, frame) :]
        except BrokenPipeError:
            pass


class Writer:
    """Serves the requests for one open file."""

    def __init__(self, db: sqlite3.Connection, path: str, ballast: Ballast, pipe: Pipe, sql: dict[str, str]) -> None:
        self._db = db
        self._path = path
        self._pipe = pipe
        self._ballast = ballast
        self._log = Log(db, path)
        self._rows = YardRows(db, path, self._log, ballast, sql)
        self._failed = ""
        self._copying = False
        self._idle_since = time.monotonic()

    def serve(self) -> None:
        """Until the input ends."""
        self._pipe.send((0, DONE, self._rows.meta()))
        self._attempt(self._ballast.look_after)
        try:
            while True:
                self._serve_one(self._pause_secs())
        except EndOfInput:
            pass
        if self._failed:
            # Closing would write to a file that failed.
            os._exit(1)
        self._log.close()
        self._db.close()

    def _pause_secs(self) -> float | None:
        idle_secs = time.monotonic() - self._idle_since
        secs = self._log.pause_secs(idle_secs)
        return QUIET_SECS if secs is None and not self._ballast.there else secs

    def _serve_one(self, secs: float | None) -> bool:
        """Serve the next request, or use a pause. Whether there was a request."""
        request = self._pipe.receive(secs)
        if request is None:
            idle_secs = time.monotonic() - self._idle_since
            self._attempt(lambda: self._rows.move_output(MOVED_IN_PAUSE))
            self._attempt(lambda: self._log.copy_in_pause(idle_secs))
            self._ballast.look_after(QUIET_SECS)
            return False
        self._answer(*request)
        self._attempt(self._rows.move_output)
        self._attempt(self._log.copy_if_long)
        self._ballast.look_after(QUIET_SECS)
        self._idle_since = time.monotonic()
        return True

    def _answer(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        if self._failed:
            self._pipe.send((number, UNUSABLE, self._failed))
            return
        try:
            do = self._copy if method == "copy" else getattr(self._rows, method)
            value = do(*arguments)
        except sqlite3.Error as error:
            self._refuse(number, in_words(self._path, error))
        except (Delayed, Refused, Unusable) as error:
            self._refuse(number, error)
        except EndOfInput:
            raise
        except FileNotFoundError:
            text = f"{self._path} was removed while it was in use; restore a backup with `taskyard store restore`"
            self._refuse(number, Unusable(text))
        except Exception as error:
            text = f"{self._path}: {method} failed: {error!r}; this is a defect of Taskyard, please report it"
            self._refuse(number, Unusable(text))
        else:
            self._pipe.send((number, DONE, value))

    def _refuse(self, number: int, error: Exception) -> None:
        text = str(error)
        if isinstance(error, Unusable):
            self._failed = text
        outcome = UNUSABLE if self._failed else DELAYED if isinstance(error, Delayed) else REFUSED
        self._pipe.send((number, outcome, text))

    def _attempt(self, upkeep: Any) -> None:
        """Do what nobody waits for. What is final is told with the next answer."""
        if self._failed:
            return
        try:
            upkeep()
        except sqlite3.Error as error:
            self._failed = str(in_words(self._path, error))

    def _copy(self, path: str) -> None:
        """Write the store as it stands at the end to a new file, and serve meanwhile. Not synced."""
        if self._copying:
            raise Refused(f"{self._path} is being copied already; try again when that is done")
        self._copying = True
        try:
            target = sqlite3.connect(path, isolation_level=None)
            try:
                target.execute("PRAGMA synchronous = OFF")
                target.execute("PRAGMA journal_mode = OFF")
                self._db.backup(target, pages=COPIED_PAGES, progress=self._serve_waiting)
                # One file, without a log beside it.
                target.execute("PRAGMA journal_mode = DELETE")
            finally:
                target.close()
        except EndOfInput:
            os.unlink(path)
            raise
        except sqlite3.Error as error:
            raise Refused(f"{path}: the copy failed: {error}; make room, or name another folder") from error
        finally:
            self._copying = False

    def _serve_waiting(self, _status: int, _left: int, _pages: int) -> None:
        while self._serve_one(0):
            pass
        if self._failed:
            raise Unusable(self._failed)


def main(arguments: list[str]) -> int:
    """The arguments: path, full or normal, how long to wait for the file, bytes of ballast, bytes to keep free."""
    path, synchronous, wait_secs, ballast_bytes, min_free_bytes = arguments
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pipe = Pipe(sys.stdin.fileno(), sys.stdout.fileno())
    sql = statements()
    try:
        db = open_yard(path, synchronous=synchronous, wait_secs=float(wait_secs), sql=sql)
        writer = Writer(db, path, Ballast(path, int(ballast_bytes), int(min_free_bytes)), pipe, sql)
    except Unusable as error:
        pipe.send((0, UNUSABLE, str(error)))
        return 1
    except sqlite3.Error as error:
        pipe.send((0, UNUSABLE, str(in_words(path, error))))
        return 1
    writer.serve()
    return 0
