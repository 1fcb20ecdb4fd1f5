"""The program of a worker process: it is set up once, then runs one task after the other, as its host tells it.

It ends with its host, whatever happens to that: the kernel ends its process group once the host's end of a pipe is
closed. SIGTERM stops the task that runs, and then the process.
"""

import asyncio
import contextlib
import faulthandler
import fcntl
import os
import pickle
import runpy
import select
import signal
import sys
import threading
import types
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from taskyard.hosting.actions import Registered
from taskyard.hosting.artifact_work import TaskArtifacts, hashes_of
from taskyard.hosting.invocation import call_plainly, enter_lifespan, invoke
from taskyard.hosting.outcomes import describe, traceback_of
from taskyard.hosting.running_task import RunningTask
from taskyard.hosting.step_work import TaskSteps
from taskyard.v1.lease_pb2 import Assignment, Lease
from taskyard.v1.output_pb2 import NewChunk
from taskyard.v1.runtime_host_pb2 import Report
from taskyard.values.payloads import Codec

from . import current_process
from .forwarded_logs import forward_logs
from .frames import Kind, frame, read_frame, read_frame_now, write_all
from .redirected import redirected
from .references import resolve
from .setup import Body, Setup

if TYPE_CHECKING:
    from taskyard.hosting.artifacts import HostArtifacts

HOST_CHECK_SECS: Final = 5.0


def main(tasks: int, reports: int, life: int, crash: int, kept: int, *ends: int) -> None:
    """Work until the host has no more tasks.

    Args:
        tasks: The file descriptor of the pipe from the host.
        reports: That of the pipe to the host.
        life: That of a pipe that is closed when the host ends.
        crash: That of a file for what the interpreter says when it crashes.
        kept: That of a pipe from the host, see `Kind.FLUSH`.
        *ends: Those of pipes for what handlers write to file descriptors 1 and 2. Default nothing is captured.
    """
    current_process.is_worker = True
    for each in (tasks, reports, life, crash, kept, *ends):
        os.set_inheritable(each, False)
    _end_with_host(life)
    faulthandler.enable(crash)
    # Ctrl-C at a terminal is the host's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    received = read_frame_now(tasks)
    if received is None:
        return
    send = Sender(reports)
    try:
        body = _import(pickle.loads(received[1]), send)
    except BaseException as error:
        send(Kind.UNFIT, _unfit(error))
        return
    asyncio.run(Worker(body, tasks, send, kept, ends).run())


class Sender:
    """Writes frames to the host, from any thread.

    Args:
        pipe: The file descriptor of the pipe.
    """

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._lock = threading.RLock()
        self.interrupts: BaseException | None = None
        """The error of a signal, raised once the frame is written that it came in the middle of."""

    def __call__(self, kind: Kind, data: bytes = b"") -> None:
        """Write a frame. It is lost once the host has ended.

        Args:
            kind: What it holds.
            data: The bytes. Default none.
        """
        with self._lock, contextlib.suppress(BrokenPipeError):
            write_all(self._pipe, frame(kind, data))
        if self.interrupts is not None and threading.current_thread() is threading.main_thread():
            error, self.interrupts = self.interrupts, None
            raise error


class Worker:
    """The worker once its modules are imported.

    Args:
        body: The handlers, and what is around them.
        tasks: The file descriptor of the pipe from the host.
        send: Writes to the host.
        kept: The file descriptor of the pipe from the host that answers `Kind.FLUSH`.
        ends: The file descriptors of pipes for what handlers write, empty if nothing is captured.
    """

    def __init__(self, body: Body, tasks: int, send: Sender, kept: int, ends: Sequence[int]) -> None:
        self._body = body
        self._kept = kept
        self._ends = ends
        self._mute = ""
        """Why the next task can say nothing."""
        self._max_payload_bytes = 0
        self._tasks = tasks
        self._send = send
        self._task: RunningTask | None = None
        self._work: asyncio.Task[Report | None] | None = None
        self._runs_plainly = False
        """True if a plain function runs, in the main thread."""
        self._must_end = False
        self._exit: SystemExit | None = None
        """The `sys.exit` of a handler."""
        self._signal = 0
        self._pid = os.getpid()

    async def run(self) -> None:
        """Enter the lifespan, then run tasks until the host has no more, or one was stopped by a signal."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._tasks, "rb", 0))
        async with AsyncExitStack() as stack:
            try:
                state = await enter_lifespan(self._body.lifespan, stack)
            except BaseException as error:
                self._send(Kind.UNFIT, _unfit(error))
                return
            signal.signal(signal.SIGTERM, self._on_sigterm)
            self._send(Kind.READY)
            while not self._must_end and (received := await read_frame(reader)) is not None:
                kind, data = received
                if kind is Kind.MUTE:
                    self._mute = data.decode()
                elif kind is Kind.LARGEST:
                    self._max_payload_bytes = int(data)
                else:
                    await self._run_task(Assignment.FromString(data), state)
                    self._mute = ""
        if self._signal:
            # So the host sees what ended it.
            signal.signal(self._signal, signal.SIG_DFL)
            os.kill(os.getpid(), self._signal)
        if self._exit is not None:
            raise self._exit

    async def _run_task(self, assignment: Assignment, state: Any) -> None:
        self._send(Kind.TAKEN)
        token = int(assignment.lease.fencing_token)
        output = PipeOutput(self._send, self._kept, self._mute)
        access, lease = self._body.access, assignment.lease
        artifacts = partial(_artifacts, access, lease, hashes_of(assignment)) if access else None
        steps = partial(_steps, access, self._max_payload_bytes, assignment, self._body.codec, output.flush)
        self._task = task = RunningTask(
            assignment.task, token, self._report, state, output, artifacts, steps if access else None
        )
        task.raises = True
        task.tell_tokens = self._tell_tokens
        handler = self._body.handlers.get(task.action, self._body.any_action)
        task.blocks = handler is not None and not handler.is_async
        middleware, codec = self._body.middleware, self._body.codec
        call = partial(self._call, handler)
        is_captured = handler is not None and handler.capture_output
        with redirected((self._ends[0], self._ends[1])) if is_captured else contextlib.nullcontext():
            self._work = asyncio.create_task(invoke(assignment, task, handler, middleware, codec, call))
            try:
                report = await self._work
            except asyncio.CancelledError:
                report = None
            finally:
                self._task = self._work = None
                output.end()
        if report is not None and report.HasField("failed") and self._exit is not None:
            self._must_end = True
            report.failed.code = "worker_died"
            report.failed.error = f"the worker process died: the handler called sys.exit({self._exit.code!r})"
        self._send(Kind.LAST if self._must_end else Kind.OUTCOME, b"" if report is None else report.SerializeToString())

    async def _call(self, handler: Registered | None, function: Callable[..., Any], *args: Any) -> Any:
        try:
            if handler is not None and handler.is_async:
                return await function(*args)
            self._runs_plainly = True
            try:
                return call_plainly(function, *args)
            finally:
                self._runs_plainly = False
        except SystemExit as error:
            self._exit = error
            raise
        except KeyboardInterrupt as error:
            # It is not Ctrl-C, which is ignored here, and would end the loop.
            raise RuntimeError("the handler raised KeyboardInterrupt") from error
        finally:
            if os.getpid() != self._pid:
                # A fork of the handler came back: it has none of our loop, and must not report in our name.
                os._exit(0)

    def _on_sigterm(self, number: int, interrupted: types.FrameType | None) -> None:
        self._must_end, self._signal = True, number
        if self._task is None or self._work is None:
            sys.exit(128 + number)
        self._task.cancelled = True
        if self._runs_plainly:
            # It is in the main thread, where signals are handled: its own `finally` has half a second.
            self._runs_plainly = False
            error = asyncio.CancelledError("the task is no longer wanted")
            if _is_in(interrupted, write_all):
                # A part of a frame would spoil all that comes after it.
                self._send.interrupts = error
                return
            raise error
        asyncio.get_running_loop().call_soon_threadsafe(self._work.cancel)

    def _report(self, report: Report) -> None:
        self._send(Kind.PROGRESS, report.SerializeToString())

    def _tell_tokens(self, tokens: int | None) -> None:
        self._send(Kind.TOKENS, b"" if tokens is None else str(tokens).encode())


class PipeOutput:
    """The output of the task of a worker: its host sends it. Writing blocks while the host has no room.

    Args:
        send: Writes to the host.
        kept: The file descriptor of the pipe from the host that answers `Kind.FLUSH`.
        refusal: Why nothing is taken, empty if it is.
    """

    def __init__(self, send: Sender, kept: int, refusal: str) -> None:
        self._send = send
        self._kept = kept
        self.refusal = refusal
        self._has_ended = False
        self._flushing = threading.Lock()
        self._has_said = False

    def take(self, chunk: NewChunk, size: int) -> bool:
        """Send a chunk, and block while the host has no room.

        Args:
            chunk: The chunk.
            size: Its bytes.

        Returns:
            True.
        """
        del size
        if not self._has_ended:
            self._has_said = True
            self._send(Kind.OUTPUT, chunk.SerializeToString())
        return True

    take_over = wait = take

    async def wait_here(self, chunk: NewChunk, size: int) -> bool:
        """As `take`.

        Args:
            chunk: The chunk.
            size: Its bytes.

        Returns:
            True.
        """
        return self.take(chunk, size)

    def flush(self) -> None:
        """Block until what was said before is kept, or the lease is over."""
        with self._flushing:
            if self._has_said and not self._has_ended:
                self._has_said = False
                self._send(Kind.FLUSH)
                os.read(self._kept, 1)

    def stop(self) -> None:
        """Do nothing: the host reads faster then."""

    def end(self) -> None:
        """The task has ended, and says no more."""
        self._has_ended = True


def _artifacts(access: bytes, lease: Lease, hashes: dict[str, str]) -> TaskArtifacts:
    """The artifacts of a task, by connections of this process."""
    from taskyard.hosting.artifacts import LeaseArtifacts

    return LeaseArtifacts(_all_artifacts(access), lease, hashes)


def _steps(
    access: bytes, max_payload_bytes: int, assignment: Assignment, codec: Codec | None, flush: Callable[[], None]
) -> TaskSteps:
    """The steps of a task, by connections of this process."""
    from taskyard.hosting.steps import LeaseSteps

    artifacts = _all_artifacts(access)
    artifacts.max_payload_bytes = max_payload_bytes
    return LeaseSteps(artifacts, assignment.lease, assignment.task.steps, codec, flush)


@cache
def _all_artifacts(access: bytes) -> "HostArtifacts":
    """The artifacts of all tasks of this process, over the same connections."""
    # Most workers need no grpc.
    from taskyard.hosting.artifacts import HostArtifacts

    return HostArtifacts(pickle.loads(access))


def _is_in(frame: types.FrameType | None, function: Callable[..., Any]) -> bool:
    """True if a frame is one of a function, or was called by one."""
    while frame is not None:
        if frame.f_code is function.__code__:
            return True
        frame = frame.f_back
    return False


def _import(setup: Setup, send: Sender) -> Body:
    """Make this process like the host's, and import what it runs."""
    sys.path[:] = setup.sys_path
    sys.argv[:] = setup.argv
    with contextlib.suppress(OSError):
        os.chdir(setup.folder)
    if setup.main is not None:
        _import_main(*setup.main)
    body: Body = pickle.loads(setup.body)
    handlers = {name: replace(each, function=resolve(each.function)) for name, each in body.handlers.items()}
    any_action = body.any_action
    if any_action is not None:
        any_action = replace(any_action, function=resolve(any_action.function))
    forward_logs(lambda record: send(Kind.LOG, record), setup.levels)
    return replace(body, handlers=handlers, any_action=any_action)


def _import_main(kind: str, where: str) -> None:
    """Import the main program under another name, so that what it guards does not run, as `multiprocessing` does."""
    main = types.ModuleType("__mp_main__")
    if kind == "module":
        content = runpy.run_module(where, run_name="__mp_main__", alter_sys=True)
    else:
        content = runpy.run_path(where, run_name="__mp_main__")
    main.__dict__.update(content)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main


def _unfit(error: BaseException) -> bytes:
    return f"{describe(error)}\n{traceback_of(error, __file__)}".rstrip().encode(errors="replace")


def _end_with_host(life: int) -> None:
    """Have the process group killed when the host ends, in whatever way, and whatever the handler does.

    The kernel does it, also while C code holds the interpreter: closing the other end of the pipe is an event for which
    SIGKILL is asked here. Where something holds that end open, as a fork of the host, a thread sees to it.
    """
    host = os.getppid()
    with contextlib.suppress(OSError):
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)

    def watch() -> None:
        while os.getppid() == host and not select.select([life], [], [], HOST_CHECK_SECS)[0]:
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="taskyard-host-watch", daemon=True).start()
