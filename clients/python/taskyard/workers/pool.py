"""The worker processes of a host: how many there are, and what each one runs.

There is one for each task that runs now, and those that have ended theirs wait for the next.
"""

import asyncio
import contextlib
import logging
import os
import pickle
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from taskyard.hosting.actions import Actions
from taskyard.hosting.artifacts import HostArtifacts
from taskyard.hosting.chunks import Piece, pieces_of
from taskyard.hosting.outcomes import failed
from taskyard.hosting.running_task import RunningTask
from taskyard.hosting.task_output import TaskOutput
from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.output_pb2 import NewChunk
from taskyard.v1.runtime_host_pb2 import Report

from .captured import CHANNELS, CapturedOutput
from .frames import Kind
from .process import WorkerProcess
from .setup import setup_of

log = logging.getLogger("taskyard")

OnProgress: TypeAlias = Callable[[Report], None]

TRIES: Final = 5
"""How many workers are tried for a task where each dies before it begins."""
FINISH_SECS: Final = 2.0
"""How long idle workers may take to leave their lifespan when the host ends."""


class WorkerUnfit(RuntimeError):
    """A worker process could not be set up: its imports or its lifespan failed.

    Args:
        reason: Why.
    """


class WorkerPool:
    """The worker processes of a host. All methods are called in one event loop.

    Args:
        actions: The handlers of the host.
        artifacts: How the host reaches the server for artifacts and steps, as workers do, too. Default they do not.
    """

    def __init__(self, actions: Actions, artifacts: HostArtifacts | None = None) -> None:
        self._actions = actions
        self._artifacts = artifacts
        self._setup: bytes | None = None
        self._idle: list[_Worker] = []
        self._workers: set[_Worker] = set()

    async def open(self) -> None:
        """Start a first worker, if there are handlers for it, so that what cannot work is known at once.

        Raises:
            TypeError: The lifespan, the middleware or the codec cannot be found again in another process.
            WorkerUnfit: The worker could not be set up.
        """
        credentials = None if self._artifacts is None else self._artifacts.credentials
        self._setup = setup_of(self._actions, credentials)
        if self._setup is not None:
            self._idle.append(await self._start(self._setup))

    async def run(
        self, assignment: Assignment, task: RunningTask, on_progress: Callable[[Report], None]
    ) -> Report | None:
        """Run a task in a worker. Cancelled, it ends the worker's process group and returns once that is gone.

        Args:
            assignment: The task and its lease.
            task: The same for the host; its tokens used are kept up to date.
            on_progress: Called with each progress report.

        Returns:
            The report of its outcome, None if it was stopped before it had one.
        """
        assert self._setup is not None
        for _ in range(TRIES):
            try:
                worker = self._take_idle() or await self._start(self._setup)
            except (OSError, WorkerUnfit) as error:
                log.error("task %s (%s): no worker process could be started: %s", task.id, task.action, error)
                return failed(task, f"no worker process could be started: {error}", code="worker_unfit")
            try:
                report = await worker.run(assignment, task, on_progress)
            except _NotTaken:
                # It died while it was idle, just before.
                continue
            if worker.is_fit:
                self._idle.append(worker)
            return report
        return failed(task, "worker processes die before they begin", code="worker_unfit")

    async def close(self) -> None:
        """End all workers. Those that run nothing may leave their lifespan."""
        for worker in self._workers:
            if worker.is_fit and not worker.is_busy:
                worker.process.finish()
            else:
                worker.process.end()
        waits = [asyncio.ensure_future(worker.process.gone.wait()) for worker in self._workers]
        if waits:
            _, late = await asyncio.wait(waits, timeout=FINISH_SECS)
            for worker in self._workers:
                worker.process.kill()
            if late:
                await asyncio.wait(late, timeout=FINISH_SECS)
        for wait in waits:
            wait.cancel()

    def _take_idle(self) -> "_Worker | None":
        while self._idle:
            worker = self._idle.pop()
            if worker.is_fit:
                return worker
        return None

    async def _start(self, setup: bytes) -> "_Worker":
        worker = _Worker(setup, self._actions.capture_output, self._artifacts)
        await worker.process.spawn()
        self._workers.add(worker)
        worker.watch = asyncio.create_task(worker.process.gone.wait())
        worker.watch.add_done_callback(lambda _: self._forget(worker))
        try:
            await worker.until_ready()
        except BaseException:
            worker.process.end()
            raise
        return worker

    def _forget(self, worker: "_Worker") -> None:
        self._workers.discard(worker)
        if not worker.is_busy:
            worker.close()


class _NotTaken(Exception):
    """A worker died before it had read its task."""


class _Worker:
    """A worker and the task that it runs."""

    def __init__(self, setup: bytes, captures: bool, artifacts: HostArtifacts | None) -> None:
        self._artifacts = artifacts
        self._told_bytes = 0
        """The largest payload that it was told."""
        self._captured = CapturedOutput(self._say_captured) if captures else None
        self.process = WorkerProcess(setup, self._take_frame, self._captured)
        self.watch: asyncio.Task[Any] | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._outcome: asyncio.Future[bytes] | None = None
        self._task: RunningTask | None = None
        self._on_progress: OnProgress | None = None
        self._has_taken = False
        self._is_ended = False
        self._has_warned = False

    @property
    def is_fit(self) -> bool:
        """True if it can run another task."""
        return not self._is_ended and not self.process.gone.is_set()

    @property
    def is_busy(self) -> bool:
        return self._outcome is not None

    async def until_ready(self) -> None:
        """Wait until it is set up. Raises `WorkerUnfit` if it could not be."""
        gone: asyncio.Future[Any] = asyncio.ensure_future(self.process.gone.wait())
        try:
            await asyncio.wait({gone, self._ready}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if not self._ready.done():
            raise WorkerUnfit(f"its process died at the start: {self.process.how_it_ended}")
        self._ready.result()

    async def run(
        self, assignment: Assignment, task: RunningTask, on_progress: Callable[[Report], None]
    ) -> Report | None:
        self._task, self._on_progress, self._has_taken = task, on_progress, False
        outcome = self._outcome = asyncio.get_running_loop().create_future()
        gone: asyncio.Future[Any] = asyncio.ensure_future(self.process.gone.wait())
        try:
            if (refusal := _refusal(task)) is not None:
                self.process.send(Kind.MUTE, refusal.encode())
            if self._artifacts is not None and self._artifacts.max_payload_bytes != self._told_bytes:
                self._told_bytes = self._artifacts.max_payload_bytes
                self.process.send(Kind.LARGEST, str(self._told_bytes).encode())
            self.process.send(Kind.TASK, assignment.SerializeToString())
            await asyncio.wait({gone, outcome}, return_when=asyncio.FIRST_COMPLETED)
            if outcome.done() and outcome.result():
                await self._drain()
                return Report.FromString(outcome.result())
            # Without a report it was stopped by a signal of somebody else, and ends.
            await gone
            await self._drain()
            if not self._has_taken:
                raise _NotTaken
            return self._died(task)
        except asyncio.CancelledError:
            self._is_ended = True
            self.process.end()
            # The slot is taken as long as anything runs.
            await self.process.gone.wait()
            await self._drain()
            raise
        finally:
            gone.cancel()
            self._task = self._on_progress = self._outcome = None
            if self.process.gone.is_set():
                self.close()

    def _died(self, task: RunningTask) -> Report:
        process, how = self.process, self.process.how_it_ended
        log.warning("task %s (%s): its worker process %d died: %s", task.id, task.action, process.pid, how)
        return failed(task, f"the worker process died: {how}", code="worker_died", where=process.crash_report)

    def close(self) -> None:
        """Read no more, since the process is gone."""
        if self._captured is not None:
            self._captured.close()

    async def _drain(self) -> None:
        if self._captured is not None:
            await self._captured.drain()

    async def _say_captured(self, channel: str, written: str | bytes) -> None:
        task = self._task
        refusal = None if task is None else _refusal(task)
        if task is None or refusal is not None:
            if task is not None and not self._has_warned:
                self._has_warned = True
                log.warning("task %s: what it writes is not kept: %s", task.id, refusal)
            # It is where it was without being captured.
            with contextlib.suppress(OSError):
                data = written.encode() if isinstance(written, str) else written
                os.write(CHANNELS.index(channel) + 1, data)
            return
        for piece in pieces_of(written, channel):
            if (waits := _say(task, piece)) is not None:
                await waits

    async def _flush(self, output: TaskOutput) -> None:
        await asyncio.to_thread(output.flush)
        self.process.tell_kept()

    def _take_frame(self, kind: Kind, data: bytes) -> Awaitable[None] | None:
        match kind:
            case Kind.OUTPUT if self._task is not None:
                return _say(self._task, (NewChunk.FromString(data), len(data)))
            case Kind.FLUSH if self._task is not None and self._task.sink is not None:
                return self._flush(self._task.sink)
            case Kind.FLUSH:
                self.process.tell_kept()
            case Kind.READY:
                self._ready.set_result(None)
            case Kind.UNFIT:
                self._ready.set_exception(WorkerUnfit(data.decode()))
            case Kind.LOG:
                _log_again(data)
            case Kind.PROGRESS if self._on_progress is not None:
                self._on_progress(Report.FromString(data))
            case Kind.TOKENS if self._task is not None:
                self._task.tokens_used = int(data) if data else None
            case Kind.TAKEN:
                self._has_taken = True
            case Kind.OUTCOME | Kind.LAST if self._outcome is not None and not self._outcome.done():
                self._is_ended = kind is Kind.LAST
                self._outcome.set_result(data)
        return None


def _refusal(task: RunningTask) -> str | None:
    """Why a task can say nothing, None if it can."""
    return "this task has no output" if task.sink is None else task.sink.refusal or None


def _say(task: RunningTask, piece: Piece) -> Awaitable[None] | None:
    """Say what a worker has said. What is returned is to be awaited: there is no room for it yet."""
    output = task.sink
    if output is None or output.refusal or output.take(*piece):
        return None
    return _wait(output, piece)


async def _wait(output: TaskOutput, piece: Piece) -> None:
    await output.wait_here(*piece)


def _log_again(data: bytes) -> None:
    """Handle a log record of a worker as if it had been logged here."""
    record = logging.makeLogRecord(pickle.loads(data))
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
