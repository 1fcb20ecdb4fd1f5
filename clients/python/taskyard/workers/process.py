"""One worker process as its host sees it: how it is spawned, what it is sent, how it is ended, and how it has ended.

It leads a session and process group of its own, which ends with it. It is spawned by exec, never forked: a fork of a
process that uses grpc does not work.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from .captured import CapturedOutput
from .frames import Kind, frame, read_frame

log = logging.getLogger("taskyard")

TERM_SECS: Final = 0.5
"""How long a process may take to end after SIGTERM, before SIGKILL."""
ROOT: Final = str(Path(__file__).parents[2])
"""Where the package is, which the worker imports before anything else."""
START: Final = "import sys; sys.path.insert(0, {root!r}); from taskyard.workers.worker import main; main{pipes}"
TRACE_CHARS: Final = 8_000


class WorkerProcess:
    """A worker process. Create it in the event loop.

    Attributes:
        gone: Set once nothing of its process group lives any more.
        how_it_ended: What ended the process, as text for people, once it is gone.
        crash_report: What the interpreter wrote when it crashed, empty if it did not.

    Args:
        setup: How it is set up, pickled.
        on_frame: Called with each frame of the worker, until it is gone. It may return what is to be awaited before the
            next one is read.
        captured: What its handlers write is read by. Default nothing is captured.
    """

    def __init__(
        self,
        setup: bytes,
        on_frame: Callable[[Kind, bytes], Awaitable[None] | None],
        captured: CapturedOutput | None = None,
    ) -> None:
        self.gone = asyncio.Event()
        self.how_it_ended = ""
        self.crash_report = ""
        self._on_frame = on_frame
        self._captured = captured
        self._setup = setup
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._kill_timer: asyncio.TimerHandle | None = None
        self._is_told_to_end = False
        self._writer: asyncio.WriteTransport | None = None
        self._reading: asyncio.Task[None] | None = None
        self._read_frames = 0
        self._waits = False
        """True while the frame that was read last waits for room, and nothing more is read."""
        self._reaping = threading.Lock()
        self._life = self._kept = -1
        self._crash_file = -1

    @property
    def pid(self) -> int:
        """The id of the process, 0 before it was spawned."""
        return 0 if self._process is None else self._process.pid

    async def spawn(self) -> None:
        """Start the process. It says by its first frame whether it is ready.

        Raises:
            OSError: The system cannot start it.
        """
        tasks, self_tasks = os.pipe()
        self_reports, reports = os.pipe()
        life, self._life = os.pipe()
        kept, self._kept = os.pipe()
        self._crash_file = os.memfd_create("taskyard-crash")
        ends = () if self._captured is None else self._captured.open()
        pipes = (tasks, reports, life, self._crash_file, kept, *ends)
        try:
            # Popen without a function to call uses vfork, and takes milliseconds. A session of its own makes a worker
            # the leader of a process group; and Linux, which shares processors among sessions, keeps the host's
            # heartbeats going beside workers that compute.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                [
                    sys.executable,
                    *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
                    "-c",
                    START.format(root=ROOT, pipes=pipes),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=pipes,
                start_new_session=True,
            )
        except BaseException:
            for each in (self_tasks, self_reports, self._life, self._kept, self._crash_file):
                os.close(each)
            if self._captured is not None:
                self._captured.close()
            raise
        finally:
            for each in (tasks, reports, life, kept, *ends):
                os.close(each)
        threading.Thread(target=self._wait, name=f"taskyard-worker-{self.pid}", daemon=True).start()
        reader = asyncio.StreamReader()
        await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self_reports, "rb", 0)
        )
        self._reading = self._loop.create_task(self._read(reader))
        transport, _ = await self._loop.connect_write_pipe(asyncio.Protocol, os.fdopen(self_tasks, "wb", 0))
        self._writer = transport
        self.send(Kind.SETUP, self._setup)

    def send(self, kind: Kind, data: bytes) -> None:
        """Send a frame. It is lost if the process is gone.

        Args:
            kind: What it holds.
            data: The bytes.
        """
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frame(kind, data))

    def tell_kept(self) -> None:
        """Tell the process that its output until its last `FLUSH` is kept."""
        with self._reaping, contextlib.suppress(OSError):
            if self._process is not None and self._process.returncode is None:
                os.write(self._kept, b"k")

    def finish(self) -> None:
        """Let the process leave its lifespan and end by itself."""
        if self._writer is not None:
            self._writer.close()

    def end(self) -> None:
        """End the process group: by SIGTERM, and by SIGKILL half a second later. A repeated call has no effect."""
        if self._is_told_to_end or self.gone.is_set():
            return
        self._is_told_to_end = True
        self._signal(signal.SIGTERM)
        self._kill_timer = self._loop.call_later(TERM_SECS, self._signal, signal.SIGKILL)

    def kill(self) -> None:
        """End the process group by SIGKILL."""
        self._is_told_to_end = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # The id is the group's until `_wait` has reaped the process, which is what `returncode` says.
        with self._reaping, contextlib.suppress(ProcessLookupError):
            if self._process is not None and self._process.returncode is None:
                os.killpg(self._process.pid, number)

    def _wait(self) -> None:
        """Wait for the end of the process, in a thread."""
        process = self._process
        assert process is not None
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # What the handler has started ends with it. The id cannot be another's yet.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with self._reaping:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.how_it_ended = _how_it_ended(process.returncode, usage.ru_maxrss)
        self.crash_report = _read_crash(self._crash_file)
        os.close(self._life)
        os.close(self._kept)
        # Without its loop the host has ended, and nobody waits any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.create_task, self._bury())

    async def _bury(self) -> None:
        if self._reading is not None:
            # What it wrote before it died is in the pipe; a process that got away with its end may hold it open.
            # What it said waits for room, though.
            read = -1
            while not self._reading.done() and (self._waits or read != self._read_frames):
                read = self._read_frames
                await asyncio.wait({self._reading}, timeout=TERM_SECS)
            self._reading.cancel()
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        if self._writer is not None and not self._writer.is_closing():
            self._writer.abort()
        self.gone.set()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while (received := await read_frame(reader)) is not None:
            try:
                if (waits := self._on_frame(*received)) is not None:
                    self._waits = True
                    await waits
            except Exception:
                log.exception("worker %d: what it sent could not be taken", self.pid)
            self._waits = False
            self._read_frames += 1


def _how_it_ended(exit_code: int, peak_kib: int) -> str:
    if exit_code >= 0:
        return f"it exited with code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = "a signal"
    text = f"it was killed by {name} (signal {-exit_code})"
    if -exit_code == signal.SIGKILL:
        text += f". So does Linux where memory runs out: the process had used up to {peak_kib // 1024} MiB"
    return text


def _read_crash(file: int) -> str:
    """Read what `faulthandler` wrote, if anything."""
    with os.fdopen(file, "rb") as crash:
        crash.seek(0)
        return crash.read(TRACE_CHARS).decode(errors="replace")
