"""The log in a file beside the console: JSON, one object a line (scheduler-daemon, Structured Logging).

What goes wrong with the file is told once on the console, and the server goes on; lines are written again as soon as
that works.
"""

import errno
import os
from logging import makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Lock
from typing import Any

import structlog

log = structlog.get_logger(__name__)


class LogFile:
    """A file of lines. Where a line would make it too large, it is set aside as FILE.1, and a new one begun."""

    def __init__(self, path: Path, max_bytes: int, backups: int) -> None:
        """Open it, and make its folder. Raises `OSError` or, for what is no path at all, `ValueError`."""
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "not a regular file")
        if not path.parent.exists():
            path.parent.mkdir()
        self.path = path
        self._handler = RotatingFileHandler(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
        self._lock = Lock()

    def write(self, line: str) -> None:
        """Append a line, as a whole or not at all; raises `OSError`."""
        data = f"{line}\n".encode()
        with self._lock:
            self._find_again()
            if self._handler.shouldRollover(makeLogRecord({"msg": line})):
                self._handler.doRollover()
            assert self._handler.stream is not None, "shouldRollover opens what is closed"
            # Not through the buffers of the stream: they would keep part of a line that did not fit on the disk.
            file = self._handler.stream.fileno()
            size = os.fstat(file).st_size
            if os.write(file, data) < len(data):
                os.ftruncate(file, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _find_again(self) -> None:
        """Someone may have moved or deleted the file: what is written to it then is lost."""
        stream = self._handler.stream
        if stream is None:
            return
        try:
            same = os.path.samestat(os.stat(self._handler.baseFilename), os.fstat(stream.fileno()))
        except FileNotFoundError:
            same = False
        if not same:
            self._handler.close()


class ToFile:
    """A structlog processor: writes each line to the file too, and passes it on as it came."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._render = structlog.processors.JSONRenderer()
        self._lost = 0

    def __call__(self, logger: Any, method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Write it."""
        try:
            self._file.write(str(self._render(logger, method, line)))
        except OSError as error:
            self._lost += 1
            if self._lost == 1:
                log.error("log_file_failed", file=str(self._file.path), error=error.strerror or str(error))
        else:
            lost, self._lost = self._lost, 0
            if lost:
                log.warning("log_file_resumed", file=str(self._file.path), lost_lines=lost)
        return line
