"""The audit log: who changed what, a line of JSON for each action (docs/operate/security.md, Audit).

Room for its line is taken before a change is made, so that a full disk refuses the change and not the line. The room is
a file without a name in the same folder, which is given up when a line does not fit on the disk otherwise.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final

import structlog

from taskyard_server.core.errors import Unavailable
from taskyard_server.settings.security import AuditSettings

from .log_file import LogFile

log = structlog.get_logger(__name__)

MAX_LINE_BYTES: Final = 4_096
RESERVE_BYTES: Final = 256 * MAX_LINE_BYTES
"""Room is taken for this many actions that are under way, and so much more whenever that is not enough."""
MAX_TEXT_CHARS: Final = 256
SHORT_TEXT_CHARS: Final = 48
"""The length of each text where a line would be too long: every character may take six bytes in JSON."""
MINUTE_SECS: Final = 60.0
MAX_TALLIED: Final = 100
"""Refusals are counted by this many names a minute, and all else together: refusals must not push changes out."""
OTHERS: Final = "others"

ENCODER: Final = json.JSONEncoder(separators=(",", ":"))

Fields = Mapping[str, Any]


class AuditLogError(Exception):
    """The audit log cannot be written; the text is one line for the operator."""


class Reserve:
    """Room on the disk of a folder. It ends with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        self.bytes = 0
        self._folder = folder
        self._file: IO[bytes] | None = None

    def hold(self, size: int) -> None:
        """Hold at least this many bytes. Raises `OSError`, and holds then what it held before."""
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        os.posix_fallocate(self._file.fileno(), self.bytes, size - self.bytes)
        self.bytes = size

    def give_up(self) -> None:
        """Hold nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.bytes = 0


class AuditLog:
    """The file of actions. Every `begin` has its `end`. `clock` is in seconds since the epoch."""

    def __init__(self, path: Path, max_bytes: int, backups: int, clock: Callable[[], float] = time.time) -> None:
        """Open the file. Raises `OSError`, or `ValueError` for an invalid path."""
        self._file = LogFile(path, max_bytes, backups, private=True)
        self._reserve = Reserve(path.parent)
        self._reserve.hold(RESERVE_BYTES)
        self._clock = clock
        self._under_way = 0
        self._unwritten: deque[str] = deque()
        self._failed = False
        self._tallies: dict[tuple[str, ...], _Tally] = {}

    def begin(self) -> None:
        """Take room for the line of a change. Raises `Unavailable` if there is none: it must not be made then."""
        try:
            self._file.make_ready(MAX_LINE_BYTES)
            self._write_what_waits()
            needed = (self._under_way + 1) * MAX_LINE_BYTES
            if self._reserve.bytes < needed:
                self._reserve.hold(-(-needed // RESERVE_BYTES) * RESERVE_BYTES)
        except OSError as error:
            reason = self._note_failure(error)
            raise Unavailable(f"the audit log cannot be written: {reason}") from None
        if self._failed:
            self._failed = False
            log.warning("audit_log_resumed", file=str(self._file.path))
        self._under_way += 1

    def end(self, fields: Fields) -> None:
        """Write the line of a change that was begun. If that fails all the same, it is the next one to be written."""
        self._under_way -= 1
        self.write(fields)

    def write(self, fields: Fields) -> None:
        """Write a line for which no room was taken; it may use what others have taken."""
        self._unwritten.append(self._line(fields))
        try:
            self._write_what_waits()
        except OSError as error:
            self._note_failure(error)

    def count(self, fields: Fields) -> None:
        """Write a line of something refused, or count it if there was one like it within the minute."""
        key = tuple(map(str, fields.values()))
        tally = self._tallies.get(key)
        if tally is None and len(self._tallies) >= MAX_TALLIED:
            fields = {name: text if name == "event" else OTHERS for name, text in fields.items()}
            key = tuple(map(str, fields.values()))
            tally = self._tallies.get(key)
        if tally is not None:
            tally.count += 1
            return
        self._tallies[key] = _Tally(fields, self._clock())
        self._write_refused(fields, 1)

    def flush(self) -> None:
        """Write what was counted for a minute. To be called every so often."""
        now = self._clock()
        for key, tally in [*self._tallies.items()]:
            if not 0 <= now - tally.since < MINUTE_SECS:
                del self._tallies[key]
                if tally.count:
                    self._write_refused(tally.fields, tally.count)

    def close(self) -> None:
        """Write what was counted, and close the file."""
        for tally in self._tallies.values():
            if tally.count:
                self._write_refused(tally.fields, tally.count)
        self._tallies.clear()
        self._reserve.give_up()
        self._file.close()

    def _write_refused(self, fields: Fields, count: int) -> None:
        """Such a line has no right to the room that changes have taken: where the disk is full it is left out."""
        if self._failed or self._unwritten:
            return
        try:
            self._file.write(self._line({**fields, "count": count}))
        except OSError as error:
            self._note_failure(error)

    def _write_what_waits(self) -> None:
        while self._unwritten:
            try:
                self._file.write(self._unwritten[0])
            except OSError:
                self._reserve.give_up()
                self._file.write(self._unwritten[0])
            self._unwritten.popleft()

    def _note_failure(self, error: OSError) -> str:
        reason = (error.strerror or str(error)).lower()
        if not self._failed:
            self._failed = True
            log.error("audit_log_failed", file=str(self._file.path), error=reason, waiting=len(self._unwritten))
        return reason

    def _line(self, fields: Fields) -> str:
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for most in (MAX_TEXT_CHARS, SHORT_TEXT_CHARS):
            line = ENCODER.encode({"at": at, **_cut(fields, most)})
            if len(line) < MAX_LINE_BYTES:
                break
        return line


def configured_audit_log(settings: AuditSettings) -> AuditLog | None:
    """The audit log of these settings; None where none is configured. Raises `AuditLogError`."""
    if settings.file is None:
        return None
    try:
        return AuditLog(settings.file, settings.max_bytes, settings.backups)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise AuditLogError(f"cannot write the audit log to {settings.file}: {reason}") from None


class _Tally:
    __slots__ = ("count", "fields", "since")

    def __init__(self, fields: Fields, since: float) -> None:
        self.fields = fields
        self.since = since
        self.count = 0


def _cut(fields: Fields, most: int) -> dict[str, Any]:
    return {
        name: _cut(value, most) if isinstance(value, dict) else value[:most] if isinstance(value, str) else value
        for name, value in fields.items()
        if value or value == 0
    }
