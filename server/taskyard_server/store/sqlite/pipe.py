"""The server's end of the writer process: starts it, matches answers to requests, and starts it again if it dies.

What was sent and not answered is then sent again: reads are repeated, and a group whose number the file has reached
counts as written.
"""

from __future__ import annotations

import asyncio
import marshal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import structlog

from taskyard_server.store.port import BackupFailed, CommitDelayed, StoreError

from .writer import DELAYED, DONE, REFUSED

log = structlog.get_logger(__name__)

_ROOT: Final = str(Path(__file__).resolve().parents[3])
_RUN: Final = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from taskyard_server.store.sqlite.{module} import main; sys.exit(main(sys.argv[1:]))"
)


def command(module: str) -> tuple[str, ...]:
    """Starts a module of this package, without what `site` would load, which takes longer than all the rest."""
    return (sys.executable, "-I", "-S", "-c", _RUN.format(module=module), _ROOT)


STARTS: Final = 3
"""This many starts without an answer in between, and the file is given up."""
_LARGE: Final = 1 << 16


class WriterProcess:
    """A writer, started again when it dies. Calls are served in their order."""

    def __init__(self, path: str, arguments: Sequence[str], command: Sequence[str]) -> None:
        self._path = path
        self._command = (*command, path, *arguments)
        self._waiting: dict[int, tuple[bytes, asyncio.Future[Any]]] = {}
        """Requests without an answer, in their order; the id 0 is the start itself."""
        self._last = 0
        self._starts = 0
        self._failed = ""
        self._closing = False
        self._connection: _Connection | None = None
        self._restart: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The process, for tests and logs."""
        return self._connection.pid if self._connection is not None else None

    async def start(self) -> Any:
        """Start it; what it says of the file. Raises `StoreError`."""
        opened = asyncio.get_running_loop().create_future()
        self._waiting[0] = (b"", opened)
        await self._begin()
        try:
            return await opened
        except StoreError:
            await self.close()
            raise

    async def call(self, method: str, *arguments: Any) -> Any:
        """Ask for something, and wait for the answer. Raises `StoreError`, `CommitDelayed`, `BackupFailed`."""
        return await self.ask(method, *arguments)

    def ask(self, method: str, *arguments: Any) -> asyncio.Future[Any]:
        """Ask for something at once; the answer may be waited for or left."""
        if self._failed or self._closing:
            raise StoreError(self._failed or f"{self._path} is closed")
        self._last += 1
        # Version 2 of the format does without a table of what was seen before.
        frame = marshal.dumps((self._last, method, arguments), 2)
        answer = asyncio.get_running_loop().create_future()
        self._waiting[self._last] = (frame, answer)
        if self._connection is not None:
            self._connection.send(frame)
        return answer

    async def close(self) -> None:
        """End it after what it was sent, and wait for that."""
        self._closing = True
        if self._connection is not None:
            self._connection.end()
        elif self._restart is None:
            return
        await self._ended.wait()

    async def _begin(self) -> None:
        self._starts += 1
        self._restart = None
        connection = self._connection = _Connection(self)
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: connection,
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=None,
                start_new_session=True,
            )
        except OSError as error:
            self._connection = None
            self._fail(f"{self._path}: its writer process cannot be started: {error}")

    def connected(self, connection: _Connection) -> None:
        """A process can be sent to: all that is not answered."""
        for frame, _ in self._waiting.values():
            if frame:
                connection.send(frame)
        if self._failed or self._closing:
            connection.end()

    def answered(self, frame: memoryview) -> None:
        """An answer came."""
        number, outcome, value = marshal.loads(frame)
        self._starts = 0 if number else self._starts
        if outcome == DONE:
            entry = self._waiting.pop(number, None)
            if entry is not None and not entry[1].done():
                entry[1].set_result(value)
        elif outcome in (DELAYED, REFUSED):
            _, answer = self._waiting.pop(number)
            if not answer.done():
                answer.set_exception((CommitDelayed if outcome == DELAYED else BackupFailed)(value))
        else:
            self._fail(value)

    def died(self, code: int | None) -> None:
        """The process ended, and all it had written was read."""
        self._connection = None
        if self._failed or (self._closing and not self._waiting):
            self._ended.set()
        elif self._starts >= STARTS:
            self._fail(f"{self._path}: its writer process ends again and again (status {code}); see the system's log")
        else:
            log.warning("store_writer_died", path=self._path, status=code, waiting=len(self._waiting))
            self._restart = asyncio.get_running_loop().create_task(self._begin())

    def _fail(self, text: str) -> None:
        """The store is of no use any more; all who wait learn it."""
        self._failed = text
        waiting = list(self._waiting.values())
        self._waiting.clear()
        for _, answer in waiting:
            if not answer.done():
                answer.set_exception(StoreError(text))
        if self._connection is not None:
            self._connection.end()
        else:
            self._ended.set()


class _Connection(asyncio.SubprocessProtocol):
    """One process: frames to it, and the answers cut out of its bytes."""

    def __init__(self, owner: WriterProcess) -> None:
        self._owner = owner
        self._bytes = bytearray()
        self._transport: asyncio.SubprocessTransport | None = None
        self._input: asyncio.WriteTransport | None = None

    @property
    def pid(self) -> int | None:
        return self._transport.get_pid() if self._transport is not None else None

    def send(self, frame: bytes) -> None:
        """Send a frame; the pipe keeps what does not go at once."""
        if self._input is None or self._input.is_closing():
            return  # it is sent again to the next process
        head = len(frame).to_bytes(4, "little")
        if len(frame) < _LARGE:
            self._input.write(head + frame)
        else:
            self._input.write(head)
            self._input.write(frame)

    def end(self) -> None:
        """Send nothing more; the process ends after what it has."""
        if self._input is not None:
            self._input.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._input = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        self._owner.connected(self)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:  # noqa: ARG002
        assert isinstance(data, bytes)
        self._bytes += data
        begin = 0
        with memoryview(self._bytes) as view:
            while len(view) >= begin + 4:
                end = begin + 4 + int.from_bytes(view[begin : begin + 4], "little")
                if len(view) < end:
                    break
                with view[begin + 4 : end] as frame:
                    self._owner.answered(frame)
                begin = end
        del self._bytes[:begin]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._owner.died(self._transport.get_returncode() if self._transport is not None else None)
