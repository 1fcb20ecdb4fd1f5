"""The log file beside the console: JSON, one object per line (docs/rules.md, Logs).

A failure of the file is logged once on the console. The server goes on, and writes lines again as soon as that works.
"""

import errno
import os
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Lock
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)


OWNER_ONLY: Final = 0o600
NOT_OTHERS: Final = 0o640


class _Handler(RotatingFileHandler):
    """Makes files that other users of the machine cannot read: they tell of tasks. A mode that is set later stays."""

    new_mode = NOT_OTHERS

    def _open(self) -> TextIOWrapper:
        file = open(  # noqa: SIM115
            self.baseFilename,
            self.mode,
            encoding=self.encoding,
            opener=lambda path, flags: os.open(path, flags, self.new_mode),
        )
        assert isinstance(file, TextIOWrapper)
        return file


class _PrivateHandler(_Handler):
    """Opens files that only their owner can read, whatever mode they had before."""

    new_mode = OWNER_ONLY

    def _open(self) -> TextIOWrapper:
        file = super()._open()
        os.fchmod(file.fileno(), OWNER_ONLY)
        return file


class LogFile:
    """A file of lines. Before a line would make it too large, it becomes FILE.1 and a new file begins.

    A `private` one can be read by its owner alone, another one by the owner's group.
    """

    def __init__(self, path: Path, max_bytes: int, backups: int, *, private: bool = False) -> None:
        """Open the file and create its folder. Raises `OSError`, or `ValueError` for an invalid path."""
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "not a regular file")
        if not path.parent.exists():
            path.parent.mkdir()
        self.path = path
        kind = _PrivateHandler if private else _Handler
        self._handler = kind(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
        self._lock = Lock()

    def make_ready(self, line_bytes: int) -> None:
        """Have a file open that takes a line of this many bytes, unless the disk is full. Raises `OSError`."""
        with self._lock:
            self._make_ready(line_bytes)

    def close(self) -> None:
        """Close the file; another line opens it again."""
        with self._lock:
            self._handler.close()

    def write(self, line: str) -> None:
        """Append a whole line, or nothing. Raises `OSError`."""
        data = f"{line}\n".encode()
        with self._lock:
            file, size = self._make_ready(len(data))
            # Bypasses the buffer of the stream, which would keep the part of a line that did not fit on the disk.
            if os.write(file, data) < len(data):
                os.ftruncate(file, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _make_ready(self, line_bytes: int) -> tuple[int, int]:
        """The open file that takes the line, and its size."""
        self._close_if_moved()
        handler = self._handler
        if handler.stream is None:
            handler.stream = handler._open()
        size = os.fstat(handler.stream.fileno()).st_size
        if size + line_bytes >= handler.maxBytes:
            handler.doRollover()
            size = os.fstat(handler.stream.fileno()).st_size
        return handler.stream.fileno(), size

    def _close_if_moved(self) -> None:
        """Lines written to a file that another program has moved or deleted would be lost."""
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
    """A structlog processor that also writes each line to the file, and passes it on unchanged."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._render = structlog.processors.JSONRenderer()
        self._lost = 0

    def __call__(self, logger: Any, method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Write the line."""
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
