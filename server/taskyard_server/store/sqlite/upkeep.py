"""Upkeep of a SQLite store besides commits: its log stays short, and a ballast file leaves room for the full disk.

Checkpoints copy the write-ahead log into the file. Nothing else can run meanwhile, so they are made while nobody
waits, or else when the log has reached a size that is copied fast.
"""

from __future__ import annotations

import os
import sqlite3
import time

from .file import free_bytes, pragma, primary

TYPE_CHECKING = False  # typing would be a quarter of what the process takes to start.
if TYPE_CHECKING:
    from typing import Final

_FRAME_HEADER: Final = 24
"""In front of each page in the log (SQLite, "The WAL File Format")."""
_LOG_HEADER: Final = 32
_SALTS: Final = 8
LOG_FRAMES: Final = 4000
"""A log of this many pages is copied even while commits come without a pause: 16 MiB. Most of the time goes to the two
fsyncs, so that shorter logs cost more in all and hold up commits hardly less."""
IDLE_FRAMES: Final = 200
"""A log of this many pages is copied in the first pause."""
PAUSE_SECS: Final = 0.02
QUIET_SECS: Final = 1.0
"""After this long without a request even a short log is copied, and the ballast looked after."""
KEEP_LOG_BYTES: Final = 64 << 20
"""A log file that grew larger than this is cut when it begins anew."""


class Log:
    """The write-ahead log of an open file."""

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db = db
        self._path = path + "-wal"
        self._fd = -1
        self._dirty = True
        self._frame = _FRAME_HEADER + pragma(db, "page_size")
        db.execute(f"PRAGMA journal_size_limit = {KEEP_LOG_BYTES}")

    def written(self) -> None:
        """Something was committed."""
        self._dirty = True

    def copy_if_long(self) -> None:
        """Copy a log that has grown long."""
        if self._dirty and self._holds(LOG_FRAMES):
            self._copy()

    def copy_in_pause(self, idle_secs: float) -> None:
        """Copy what is worth it after so long a pause."""
        if self._dirty and (idle_secs >= QUIET_SECS or self._holds(IDLE_FRAMES)):
            self._copy()

    def pause_secs(self, idle_secs: float) -> float | None:
        """In how many seconds of further idleness there is something to do; None if there is nothing."""
        if not self._dirty:
            return None
        return PAUSE_SECS if idle_secs < PAUSE_SECS else max(0.0, QUIET_SECS - idle_secs)

    def bytes(self) -> int:
        """The size of the log's file."""
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def _copy(self) -> None:
        try:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.OperationalError as error:
            if primary(error) != sqlite3.SQLITE_FULL:
                raise
            # It stays in the log, where it is safe, until there is room.
        self._dirty = False

    def _holds(self, frames: int) -> bool:
        """True if the log has this many pages: then the header of the last one bears the salts of the whole log.

        The file's size does not say it, for a log begins anew in the same file. (Only the main file must not be
        opened beside SQLite: closing it would let go of the lock.)
        """
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
        salts = os.pread(self._fd, _SALTS, 16)
        return len(salts) == _SALTS and salts == os.pread(
            self._fd, _SALTS, _LOG_HEADER + (frames - 1) * self._frame + 8
        )

    def close(self) -> None:
        """Let go of the log's file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Ballast:
    """A file that takes room as long as there is some, and gives it up when the disk is full.

    What is under way can then still end, and rows can be forgotten: both need room in the log.
    """

    def __init__(self, path: str, size: int, min_free_bytes: int) -> None:
        self._path = path + ".ballast"
        self._folder = os.path.dirname(path)
        self._size = size
        self._min_free_bytes = min_free_bytes
        self.there = False
        self._looked_at = 0.0

    def free_bytes(self) -> int:
        """The bytes that are free for us beside the file."""
        return free_bytes(self._folder)

    def give_up(self) -> bool:
        """Make room. False if there was no ballast any more."""
        self.there = False
        try:
            os.unlink(self._path)
        except OSError:
            return False
        return True

    def look_after(self, every_secs: float = 0.0) -> None:
        """Make the file if there is none, and room for it that nobody else needs."""
        now = time.monotonic()
        if self.there or self._size == 0 or now - self._looked_at < every_secs:
            return
        self._looked_at = now
        try:
            if os.path.exists(self._path) and os.stat(self._path).st_size == self._size:
                self.there = True
            elif self.free_bytes() >= self._min_free_bytes + self._size:
                self._make()
                self.there = True
        except OSError:
            # Then without: it only softens what a full disk does.
            self.give_up()

    def _make(self) -> None:
        with open(self._path, "wb", buffering=0) as file:
            left = self._size
            while left > 0:
                # Nothing that a file system could compress or leave out.
                left -= file.write(os.urandom(min(left, 1 << 20)))
