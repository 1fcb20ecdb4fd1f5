"""The handlers that run now, and what a handler's end means for its task.

A handler is an async function or a plain function. It returns the task's result, a JSON value. `ActionFailed` fails the
task with its text, any other exception with its name and text; its traceback is logged only.
"""

import asyncio
import contextvars
import functools
import inspect
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from taskyard.tasks import Task
from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.runtime_host_pb2 import Report, TaskCompleted, TaskFailed
from taskyard.values import value_from

from .actions import Actions, Handler
from .outbox import LeaseKey, key_of
from .running_task import ActionFailed, RunningTask

log = logging.getLogger("taskyard")

MAX_ERROR_CHARS: Final = 10_000
"""The server keeps no more."""
MAX_DEPTH: Final = 30
"""Levels of lists and objects that the server accepts. It could not parse a much deeper message at all."""


class Handlers:
    """The handlers that run now, as asyncio tasks. Plain functions run in a pool of one thread for each slot.

    Args:
        actions: The handlers by action.
        slots: How many tasks run at once.
        on_progress: Called with each progress report.
        on_outcome: Called when a handler has ended, with its final report; None if it was stopped before it had one.
    """

    def __init__(
        self,
        actions: Actions,
        slots: int,
        *,
        on_progress: Callable[[Report], None],
        on_outcome: Callable[[LeaseKey, Report | None], None],
    ) -> None:
        self._actions = actions
        self._on_progress = on_progress
        self._on_outcome = on_outcome
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="taskyard-action")
        self._running: dict[LeaseKey, tuple[RunningTask, asyncio.Task[Report | None]]] = {}

    async def open(self) -> None:
        """Do nothing yet."""

    def start(self, assignments: Iterable[Assignment]) -> None:
        """Start the handlers of tasks.

        Args:
            assignments: The tasks and their leases.
        """
        for assignment in assignments:
            key = key_of(assignment.lease)
            try:
                task = RunningTask(Task.from_message(assignment.task), key[1], self._on_progress)
            except Exception as error:
                # An unreadable task must end neither this host nor the next one that it is assigned to.
                log.exception("task %s cannot be read", key[0])
                failure = TaskFailed(error=f"the host cannot read the task: {_describe(error)}", code="unreadable")
                self._on_outcome(key, Report(task_id=key[0], fencing_token=key[1], failed=failure))
                continue
            work = asyncio.create_task(self._run(task), name=f"taskyard {task.action} {task.id}")
            self._running[key] = (task, work)
            work.add_done_callback(functools.partial(self._report_outcome, key))

    def stop(self, keys: Iterable[LeaseKey]) -> None:
        """Cancel handlers. A plain function cannot be cancelled; its `RunningTask.cancelled` becomes True.

        Args:
            keys: The leases of the handlers. Those that do not run are ignored.
        """
        for key in keys:
            if key in self._running:
                task, work = self._running[key]
                task.cancelled = True
                handler = self._actions.handler(task.action)
                if handler is not None and _is_async(handler):
                    work.cancel()

    def stop_all(self) -> None:
        """Cancel all handlers that were not cancelled before."""
        self.stop([key for key, (task, _) in self._running.items() if not task.cancelled])

    def tokens_used(self) -> dict[LeaseKey, int]:
        """Collect the tokens that handlers have stated.

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
        """Cancel all handlers and let them end, but wait for no thread."""
        works = [work for _, work in self._running.values()]
        for task, work in self._running.values():
            task.cancelled = True
            work.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if works:
            await asyncio.wait(works, timeout=1.0)

    def _report_outcome(self, key: LeaseKey, work: asyncio.Task[Report | None]) -> None:
        del self._running[key]
        error = None if work.cancelled() else work.exception()
        if error is not None:
            log.error("task %s: its outcome could not be told, it is given back", key[0], exc_info=error)
        self._on_outcome(key, None if work.cancelled() or error else work.result())

    async def _run(self, task: RunningTask) -> Report | None:
        """Run the handler. Returns the report of its outcome, None if it was stopped before it had one."""
        handler = self._actions.handler(task.action)
        if handler is None:
            return _failed(task, f"this host has no action {task.action!r}", code="unknown_action")
        try:
            if _is_async(handler):
                result = await handler(task)
            else:
                loop, context = asyncio.get_running_loop(), contextvars.copy_context()
                result = await loop.run_in_executor(self._pool, context.run, _call, handler, task)
        except asyncio.CancelledError:
            if task.cancelled:
                return None
            return _failed(task, "CancelledError: the handler was cancelled, but not by its host")
        except ActionFailed as failure:
            log.info("task %s (%s) failed: %s", task.id, task.action, failure)
            return _failed(task, str(failure), code=failure.code, retryable=failure.retryable)
        except KeyboardInterrupt:
            raise
        # A handler that exits the process by mistake, as argparse does, ends its task only. A task is not given back
        # for exceptions of other kinds either, such as those of test frameworks: it would be assigned again, endlessly.
        except BaseException as error:
            log.warning("task %s (%s) failed", task.id, task.action, exc_info=error)
            return _failed(task, _describe(error))
        return _completed(task, result)


def _call(handler: Handler, task: RunningTask) -> Any:
    """Run a plain function."""
    try:
        return handler(task)
    except StopIteration as error:
        # A future cannot carry StopIteration: its awaiter would wait forever. A coroutine turns it into the same error.
        raise RuntimeError("the handler raised StopIteration") from error


def _completed(task: RunningTask, result: Any) -> Report:
    if result is None:
        return task.report(completed=TaskCompleted())
    try:
        if _is_deeper(result, MAX_DEPTH):
            raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
        return task.report(completed=TaskCompleted(result=value_from(result)))
    # Not only TypeError and ValueError: an object that looks like a mapping may raise anything when it is read.
    except Exception as error:
        text = str(error) if isinstance(error, (TypeError, ValueError)) else _describe(error)
        log.warning("task %s (%s): its result is not JSON: %s", task.id, task.action, text)
        # The work is done; another attempt would do it twice, with the same outcome.
        return _failed(task, f"result is not JSON: {text}", code="bad_result", retryable=False)


def _failed(task: RunningTask, error: str, code: str | None = None, retryable: bool = True) -> Report:
    # An exception's text may not be valid Unicode, such as half of a surrogate pair.
    text = error[:MAX_ERROR_CHARS].encode(errors="replace").decode() or "failed without a word"
    return task.report(failed=TaskFailed(error=text, code=code, retryable=None if retryable else False))


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _is_deeper(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        return levels == 0 or any(_is_deeper(item, levels - 1) for item in value.values())
    if isinstance(value, (list, tuple)):
        return levels == 0 or any(_is_deeper(item, levels - 1) for item in value)
    return False
