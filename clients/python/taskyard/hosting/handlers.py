"""The handlers that run now. Each is an asyncio task of the program's loop, wherever its function runs.

Plain functions run in a pool of one thread for each slot, those of the form "process" in worker processes.
"""

import asyncio
import contextvars
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, Final, TypeAlias

from taskyard.errors import TaskyardError
from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.runtime_host_pb2 import Report
from taskyard.workers.pool import WorkerPool

from .actions import Actions
from .artifact_work import TaskArtifacts, hashes_of
from .artifacts import HostArtifacts, LeaseArtifacts
from .invocation import Call, call_plainly, enter_lifespan, invoke
from .outbox import LeaseKey, key_of
from .outcomes import failed
from .running_task import RunningTask
from .step_work import TaskSteps
from .steps import LeaseSteps
from .task_output import TaskOutput

log = logging.getLogger("taskyard")

OutputOf: TypeAlias = Callable[[LeaseKey], TaskOutput]
"""Makes the output of a lease."""

ABANDON_SECS: Final = 1.0
"""How long handlers may take to end once the host has left."""


class Handlers:
    """The handlers that run now. Everything is called, and calls back, in the event loop where `open` was called.

    Args:
        actions: The handlers by action, and what is around them.
        slots: How many tasks run at once.
        on_progress: Called with each progress report.
        on_outcome: Called when a handler has ended, with its final report; None if it was stopped before it had one.
        artifacts: Puts and reads artifacts. Default tasks have none.
    """

    def __init__(
        self,
        actions: Actions,
        slots: int,
        *,
        on_progress: Callable[[Report], None],
        on_outcome: Callable[[LeaseKey, Report | None], None],
        artifacts: HostArtifacts | None = None,
    ) -> None:
        self._artifacts = artifacts
        self._actions = actions
        self._on_progress = on_progress
        self._on_outcome = on_outcome
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="taskyard-action")
        self._processes = WorkerPool(actions, artifacts)
        self._lifespan = AsyncExitStack()
        self._state: Any = None
        self._running: dict[LeaseKey, tuple[RunningTask, asyncio.Task[Report | None]]] = {}
        self._is_abandoned = False

    async def open(self) -> None:
        """Enter the lifespan, and start a first worker process if there are handlers for it.

        The lifespan is left by `close`, which must be called by the same asyncio task.

        Raises:
            Exception: What the lifespan raises.
            RuntimeError: A worker process cannot start.
        """
        try:
            await self._processes.open()
            if self._actions.run_here:
                self._state = await enter_lifespan(self._actions.lifespan, self._lifespan)
        except BaseException:
            await self.close()
            raise

    def start(self, assignments: Iterable[Assignment], output_of: OutputOf | None = None) -> None:
        """Start the handlers of tasks.

        Args:
            assignments: The tasks and their leases.
            output_of: Makes the output of a lease. Default they have none.
        """
        for assignment in assignments:
            key = key_of(assignment.lease)
            output = None if output_of is None else output_of(key)
            made = self._artifacts_of(assignment), self._steps_of(assignment, output)
            task = RunningTask(assignment.task, key[1], self._on_progress, self._state, output, *made)
            work = asyncio.create_task(self._run(assignment, task), name=f"taskyard {task.action} {task.id}")
            self._running[key] = (task, work)
            work.add_done_callback(functools.partial(self._report_outcome, key))

    def stop(self, keys: Iterable[LeaseKey]) -> None:
        """Stop handlers: async ones are cancelled, worker processes ended, plain functions told by their task.

        Args:
            keys: The leases of the handlers. Those that do not run are ignored.
        """
        for key in keys:
            if key in self._running:
                task, work = self._running[key]
                task.stop()
                work.cancel()

    def tokens_used(self) -> dict[LeaseKey, int]:
        """Collect the tokens that handlers have stated. May be called from any thread.

        Returns:
            The tokens used so far, by lease, of the handlers that have stated them.
        """
        stated = ((key, task.tokens_used) for key, (task, _) in self._running.copy().items())
        return {key: tokens for key, tokens in stated if tokens is not None}

    def running(self) -> dict[LeaseKey, str]:
        """List what runs. May be called from any thread.

        Returns:
            The action by lease.
        """
        return {key: task.action for key, (task, _) in self._running.copy().items()}

    async def close(self) -> None:
        """Stop all handlers and let them end, but wait for no thread; end the worker processes, leave the lifespan."""
        self._is_abandoned = True
        works = [work for _, work in self._running.values()]
        for task, work in self._running.values():
            task.stop()
            work.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if works:
            await asyncio.wait(works, timeout=ABANDON_SECS)
        await self._processes.close()
        await self._lifespan.aclose()

    def _report_outcome(self, key: LeaseKey, work: asyncio.Task[Report | None]) -> None:
        self._running.pop(key)[0].end()
        error = None if work.cancelled() else work.exception()
        if error is not None:
            log.error("task %s: its outcome could not be told, it is given back", key[0], exc_info=error)
        self._on_outcome(key, None if work.cancelled() or error else work.result())

    def _artifacts_of(self, assignment: Assignment) -> Callable[[], TaskArtifacts] | None:
        if self._artifacts is None:
            return None
        return functools.partial(LeaseArtifacts, self._artifacts, assignment.lease, hashes_of(assignment))

    def _steps_of(self, assignment: Assignment, output: TaskOutput | None) -> Callable[[], TaskSteps] | None:
        if self._artifacts is None:
            return None
        count, codec = assignment.task.steps, self._actions.codec
        made = functools.partial(LeaseSteps, self._artifacts, assignment.lease, count, codec)
        return made if output is None else functools.partial(made, output.flush)

    async def _run(self, assignment: Assignment, task: RunningTask) -> Report | None:
        """Run a task, whose params, inputs and result may be artifacts, since they are too large."""
        artifacts = self._artifacts
        if artifacts is None:
            return await self._invoke(assignment, task)
        what = "params"
        try:
            if artifacts.needs_params(assignment.task):
                await asyncio.to_thread(artifacts.fill, assignment)
            for name in sorted(assignment.inputs):
                what = f"input {name!r}"
                if artifacts.needs_input(assignment.inputs[name]):
                    await asyncio.to_thread(artifacts.fill_input, assignment, name)
        except TaskyardError as error:
            return failed(task, f"the {what} cannot be fetched: {error}", code="bad_input")
        report = await self._invoke(assignment, task)
        if report is not None and artifacts.is_too_large(report):
            try:
                await asyncio.to_thread(artifacts.shrink, assignment.lease, report)
            except TaskyardError as error:
                text = f"the result is too large, and cannot be an artifact: {error}"
                return failed(task, text, code="bad_result", retryable=False)
        return report

    async def _invoke(self, assignment: Assignment, task: RunningTask) -> Report | None:
        actions = self._actions
        handler = actions.handler_of_run(task.action)
        if handler is not None and handler.runs_in == "process":
            return await self._processes.run(assignment, task, self._on_progress)
        call: Call = _call_here
        if handler is not None and handler.runs_in == "thread":
            task.raises = True
            call = functools.partial(self._call_in_thread, task)
        return await invoke(assignment, task, handler, actions.middleware, actions.codec, call)

    async def _call_in_thread(self, task: RunningTask, function: Callable[..., Any], *args: Any) -> Any:
        """Run a plain function to its end, also when its task is stopped: it holds a slot as long as it runs."""
        run = contextvars.copy_context().run
        future = asyncio.get_running_loop().run_in_executor(self._threads, run, call_plainly, function, *args)
        was_cancelled = False
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError:
                was_cancelled = True
                if self._is_abandoned or not task.cancelled:
                    # The host leaves without it, or its middleware has had enough.
                    future.add_done_callback(_look_at)
                    raise
        if was_cancelled:
            if future.exception() is not None:
                raise asyncio.CancelledError from future.exception()
            # What it has returned all the same counts, if the lease is still held.
            work = asyncio.current_task()
            assert work is not None
            work.uncancel()
        return future.result()


def _call_here(function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
    awaitable: Awaitable[Any] = function(*args)
    return awaitable


def _look_at(future: "asyncio.Future[Any]") -> None:
    """Keep asyncio from telling of an exception that nobody wants to know any more."""
    if not future.cancelled():
        future.exception()
